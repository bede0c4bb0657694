package deploy

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
)

// TestClient holds that the Job with a program finds the base's service, and that the base's network policy lets it in, and tasks out to DNS.
func TestClient(t *testing.T) {
	base, o := build(t, "base"), build(t, "client")
	if len(o.jobs) != 1 || len(o.configs) != 1 {
		t.Fatalf("%d Jobs, %d ConfigMaps", len(o.jobs), len(o.configs))
	}
	pod := &o.jobs[0].Spec.Template
	checkVolumes(t, o, &pod.Spec)
	c := &pod.Spec.Containers[0]
	if s, of := pod.Spec.SecurityContext, c.SecurityContext; !*s.RunAsNonRoot || *of.AllowPrivilegeEscalation || !*of.ReadOnlyRootFilesystem {
		t.Errorf("%+v, %+v", s, of)
	}
	i := slices.IndexFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.Name == "program" })
	if i < 0 || len(c.Command) != 2 {
		t.Fatalf("%q runs without a program", c.Command)
	}
	program, ok := strings.CutPrefix(c.Command[1], c.VolumeMounts[i].MountPath+"/")
	if !ok || !strings.Contains(o.configs[0].Data[program], `os.environ["TARGET"]`) {
		t.Errorf("%q is not a program that asks for its target", c.Command)
	}
	i = slices.IndexFunc(c.Env, func(e core.EnvVar) bool { return e.Name == "TARGET" })
	if i < 0 {
		t.Fatal("the program has no target")
	}
	name, port, err := net.SplitHostPort(strings.TrimPrefix(c.Env[i].Value, "grpc://"))
	if err != nil {
		t.Fatal(err)
	}
	if count(base.services, func(s *core.Service) bool { return s.Name == name && strconv.Itoa(int(s.Spec.Ports[0].Port)) == port }) != 1 {
		t.Errorf("the base has no service at %s", c.Env[i].Value)
	}
	lets := func(r networking.NetworkPolicyIngressRule) bool {
		return slices.ContainsFunc(r.From, func(from networking.NetworkPolicyPeer) bool {
			return from.PodSelector != nil && selects(t, from.PodSelector, pod.Labels)
		}) && slices.ContainsFunc(r.Ports, func(p networking.NetworkPolicyPort) bool { return p.Port.String() == port })
	}
	if !slices.ContainsFunc(base.networks[0].Spec.Ingress, lets) {
		t.Error("the base's network policy does not let the program in")
	}
	// The DNS server's pods, whose labels are not the cluster's.
	dns := map[string]string{"k8s-app": "kube-dns"}
	if !slices.ContainsFunc(base.networks[0].Spec.Egress, func(r networking.NetworkPolicyEgressRule) bool {
		return slices.ContainsFunc(r.To, func(to networking.NetworkPolicyPeer) bool {
			return to.PodSelector != nil && selects(t, to.PodSelector, dns)
		})
	}) {
		t.Error("tasks cannot look up names")
	}
}
