// Package deploy checks the manifests in deploy/: kustomize builds them, Kubernetes' own types decode them strictly, Compose's loader
// loads them, and what they describe runs: the tasks are started on this machine with the arguments of their containers, and asked what
// the probes ask. It is a module of its own, since these libraries bring many others along.
package deploy

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	compose "github.com/compose-spec/compose-go/v2/types"
	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const root = "../../"

// objects are what a kustomization consists of, decoded strictly.
type objects struct {
	sets     []*apps.StatefulSet
	services []*core.Service
	budgets  []*policy.PodDisruptionBudget
	networks []*networking.NetworkPolicy
	configs  []*core.ConfigMap
	monitors []*monitoring.PodMonitor
	jobs     []*batch.Job
}

func decode[T any](t *testing.T, text []byte, into *[]*T) {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict(text, object); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
	*into = append(*into, object)
}

func build(t *testing.T, folder string) *objects {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), root+"deploy/kubernetes/"+folder)
	if err != nil {
		t.Fatal(err)
	}
	o := &objects{}
	for _, r := range all.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		switch kind := r.GetApiVersion() + " " + r.GetKind(); kind {
		case "apps/v1 StatefulSet":
			decode(t, text, &o.sets)
		case "v1 Service":
			decode(t, text, &o.services)
		case "policy/v1 PodDisruptionBudget":
			decode(t, text, &o.budgets)
		case "networking.k8s.io/v1 NetworkPolicy":
			decode(t, text, &o.networks)
		case "v1 ConfigMap":
			decode(t, text, &o.configs)
		case "monitoring.coreos.com/v1 PodMonitor":
			decode(t, text, &o.monitors)
		case "batch/v1 Job":
			decode(t, text, &o.jobs)
		default:
			t.Errorf("%s: nothing checks %s", folder, kind)
		}
	}
	return o
}

// task is one task of a cluster that a manifest describes: its own address there, and how it is run and probed.
type task struct {
	name, address string // ps:0, host:2222
	args, env     []string
	probes        []*core.Probe
	health        []string // a command that is a health check
}

var overlays = []string{"base", "overlays/secured", "overlays/monitoring"}

func TestKubernetes(t *testing.T) {
	for _, folder := range overlays {
		t.Run(folder, func(t *testing.T) {
			o := build(t, folder)
			if len(o.sets) != 2 || len(o.services) != 3 || len(o.budgets) != 2 || len(o.networks) < 1 {
				t.Fatalf("%d StatefulSets, %d Services, %d PodDisruptionBudgets, %d NetworkPolicies", len(o.sets), len(o.services), len(o.budgets), len(o.networks))
			}
			var tasks []task
			for _, set := range o.sets {
				job := set.Spec.Template.Labels["app.kubernetes.io/component"]
				service := o.governing(t, set)
				c := checkPod(t, set.Name, &set.Spec.Template.Spec, "troupe")
				checkVolumes(t, o, &set.Spec.Template.Spec)
				for i := range int(*set.Spec.Replicas) {
					values := map[string]string{"NAMESPACE": "default", "TASK": strconv.Itoa(i)}
					host := fmt.Sprintf("%s-%d.%s.default.svc.cluster.local", set.Name, i, service.Name)
					tasks = append(tasks, task{name: fmt.Sprintf("%s:%d", job, i), address: host + ":2222", args: expand(t, c, values), probes: probes(c)})
				}
				if !selects(t, set.Spec.Selector, set.Spec.Template.Labels) {
					t.Errorf("%s does not select its own pods", set.Name)
				}
				if n := count(o.budgets, func(b *policy.PodDisruptionBudget) bool { return selects(t, b.Spec.Selector, set.Spec.Template.Labels) }); n != 1 {
					t.Errorf("%s has %d disruption budgets", set.Name, n)
				}
				for _, n := range o.networks {
					if !selects(t, &n.Spec.PodSelector, set.Spec.Template.Labels) {
						t.Errorf("the network policy %s does not select the pods of %s", n.Name, set.Name)
					}
				}
				for _, m := range o.monitors {
					if !selects(t, &m.Spec.Selector, set.Spec.Template.Labels) || set.Spec.Template.Labels[m.Spec.JobLabel] != "troupe" {
						t.Errorf("the pod monitor %s does not scrape the pods of %s as the job troupe", m.Name, set.Name)
					}
					for _, e := range m.Spec.PodMetricsEndpoints {
						if e.Port == nil || port(c, *e.Port) != 9090 {
							t.Errorf("the pod monitor %s scrapes a port that the pods of %s do not serve", m.Name, set.Name)
						}
					}
				}
			}
			for _, s := range o.services {
				if n := count(o.sets, func(set *apps.StatefulSet) bool {
					return labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(set.Spec.Template.Labels))
				}); n != 1 {
					t.Errorf("the service %s selects %d StatefulSets", s.Name, n)
				}
			}
			declared(t, tasks)
			var files map[string]string
			if len(o.configs) > 0 {
				files = o.configs[0].Data
			}
			runCluster(t, tasks, files)
		})
	}
}

// governing is the service that gives the pods of a set their names.
func (o *objects) governing(t *testing.T, set *apps.StatefulSet) *core.Service {
	t.Helper()
	i := slices.IndexFunc(o.services, func(s *core.Service) bool { return s.Name == set.Spec.ServiceName })
	if i < 0 {
		t.Fatalf("%s: there is no service %s", set.Name, set.Spec.ServiceName)
	}
	s := o.services[i]
	if s.Spec.ClusterIP != core.ClusterIPNone || !s.Spec.PublishNotReadyAddresses {
		t.Errorf("the service %s is not headless, or its names wait for readiness", s.Name)
	}
	if !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(set.Spec.Template.Labels)) {
		t.Errorf("the service %s does not select the pods of %s", s.Name, set.Name)
	}
	for _, p := range s.Spec.Ports {
		if got := port(&set.Spec.Template.Spec.Containers[0], p.TargetPort.StrVal); got != p.Port {
			t.Errorf("the port %s of the service %s leads to %d, not %d", p.Name, s.Name, got, p.Port)
		}
	}
	return s
}

func count[T any](all []T, has func(T) bool) (n int) {
	for _, x := range all {
		if has(x) {
			n++
		}
	}
	return n
}

func selects(t *testing.T, s *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return !selector.Empty() && selector.Matches(labels.Set(of))
}

// checkPod holds what the manifests promise of security, ends and probes, and gives the container.
func checkPod(t *testing.T, where string, p *core.PodSpec, name string) *core.Container {
	t.Helper()
	if len(p.Containers) != 1 || p.Containers[0].Name != name {
		t.Fatalf("%s has not the one container %s", where, name)
	}
	c := &p.Containers[0]
	s, of := p.SecurityContext, c.SecurityContext
	if s == nil || of == nil || !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault ||
		*of.AllowPrivilegeEscalation || !*of.ReadOnlyRootFilesystem || !slices.Equal(of.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%s: %+v, %+v", where, s, of)
	}
	if want := image(t); c.Image != want {
		t.Errorf("%s runs the image %s, not %s", where, c.Image, want)
	}
	drain, err := time.ParseDuration(flag(c.Args, "drain"))
	if err != nil || p.TerminationGracePeriodSeconds == nil || time.Duration(*p.TerminationGracePeriodSeconds)*time.Second <= drain {
		t.Errorf("%s: it is killed before it has drained for %v: %v", where, drain, err)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().Cmp(*c.Resources.Limits.Memory()) != 0 || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%s: resources %+v", where, c.Resources)
	}
	_, at, err := net.SplitHostPort(flag(c.Args, "http"))
	if err != nil {
		t.Errorf("%s: %v", where, err)
	}
	for _, probe := range probes(c) {
		if probe == nil || probe.HTTPGet == nil {
			t.Fatalf("%s lacks a probe", where)
		}
		if got := port(c, probe.HTTPGet.Port.StrVal); strconv.Itoa(int(got)) != at {
			t.Errorf("%s: a probe asks port %d, and HTTP is served at %s", where, got, at)
		}
	}
	return c
}

// checkVolumes holds that what is mounted is there.
func checkVolumes(t *testing.T, o *objects, p *core.PodSpec) {
	t.Helper()
	for _, m := range p.Containers[0].VolumeMounts {
		if n := count(p.Volumes, func(v core.Volume) bool { return v.Name == m.Name }); n != 1 {
			t.Errorf("there are %d volumes %s", n, m.Name)
		}
	}
	for _, v := range p.Volumes {
		if v.ConfigMap != nil && count(o.configs, func(c *core.ConfigMap) bool { return c.Name == v.ConfigMap.Name }) != 1 {
			t.Errorf("there is no config map %s", v.ConfigMap.Name)
		}
		if v.Secret != nil && (*v.Secret.DefaultMode != 0o440 || p.SecurityContext.FSGroup == nil) {
			t.Errorf("the files of %s are not the group's: mode %04o", v.Name, *v.Secret.DefaultMode)
		}
	}
}

func probes(c *core.Container) []*core.Probe {
	return []*core.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe}
}

// port is the number of a container's port.
func port(c *core.Container, name string) int32 {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

func flag(args []string, name string) string {
	for _, a := range args {
		if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// expand is a container's arguments with its variables replaced, all of which it must define.
func expand(t *testing.T, c *core.Container, values map[string]string) []string {
	t.Helper()
	var args []string
	for _, a := range c.Args {
		for _, e := range c.Env {
			value, ok := values[e.Name]
			if !ok {
				t.Fatalf("the test has no value for %s", e.Name)
			}
			a = strings.ReplaceAll(a, "$("+e.Name+")", value)
		}
		if strings.Contains(a, "$(") {
			t.Errorf("%s has a variable that is not defined", a)
		}
		args = append(args, a)
	}
	return args
}

// declared holds that all tasks have the same --cluster, which has just them.
func declared(t *testing.T, tasks []task) {
	t.Helper()
	for _, one := range tasks {
		got := map[string]string{}
		for job := range strings.SplitSeq(flag(one.args, "cluster"), ";") {
			name, list, _ := strings.Cut(job, "=")
			for i, address := range strings.Split(list, ",") {
				got[fmt.Sprintf("%s:%d", name, i)] = address
			}
		}
		want := map[string]string{}
		for _, other := range tasks {
			want[other.name] = other.address
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s is told of the cluster %v, which is %v", one.name, got, want)
		}
	}
}

func TestKubeflow(t *testing.T) {
	text, err := os.ReadFile(root + "deploy/kubeflow/tfjob.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job kubeflow.TFJob
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		t.Fatal(err)
	}
	if job.APIVersion != kubeflow.SchemeGroupVersion.String() || job.Kind != kubeflow.TFJobKind || job.Spec.RunPolicy.CleanPodPolicy == nil || *job.Spec.RunPolicy.CleanPodPolicy != kubeflow.CleanPodPolicyAll {
		t.Errorf("%+v", job)
	}
	known := []kubeflow.ReplicaType{kubeflow.TFJobReplicaTypeChief, kubeflow.TFJobReplicaTypePS, kubeflow.TFJobReplicaTypeWorker}
	// What the operator sets in each pod.
	type self struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	config := struct {
		Cluster     map[string][]string `json:"cluster"`
		Task        self                `json:"task"`
		Environment string              `json:"environment"`
	}{Cluster: map[string][]string{}, Environment: "cloud"}
	for kind, r := range job.Spec.TFReplicaSpecs {
		if !slices.Contains(known, kind) || r.RestartPolicy != kubeflow.RestartPolicyOnFailure {
			t.Errorf("replicas %s, restarted %s", kind, r.RestartPolicy)
		}
		name := strings.ToLower(string(kind))
		for i := range int(*r.Replicas) {
			config.Cluster[name] = append(config.Cluster[name], fmt.Sprintf("%s-%s-%d.default.svc:%d", job.Name, name, i, port(&r.Template.Spec.Containers[0], kubeflow.TFJobDefaultPortName)))
		}
	}
	var tasks []task
	for kind, r := range job.Spec.TFReplicaSpecs {
		name := strings.ToLower(string(kind))
		c := checkPod(t, string(kind), &r.Template.Spec, kubeflow.TFJobDefaultContainerName)
		for i := range int(*r.Replicas) {
			address := config.Cluster[name][i]
			config.Task = self{name, i}
			env, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			host, _, _ := strings.Cut(address, ":")
			tasks = append(tasks, task{name: fmt.Sprintf("%s:%d", name, i), address: address, env: []string{"TF_CONFIG=" + string(env)},
				args: expand(t, c, map[string]string{"POD_IP": host}), probes: probes(c)})
		}
	}
	if len(tasks) != 3 {
		t.Errorf("%d tasks", len(tasks))
	}
	runCluster(t, tasks, nil)
}

func TestCompose(t *testing.T) {
	path := root + "deploy/compose/compose.yaml"
	project, err := loader.LoadWithContext(t.Context(), compose.ConfigDetails{WorkingDir: filepath.Dir(path), ConfigFiles: []compose.ConfigFile{{Filename: path}}, Environment: compose.Mapping{}})
	if err != nil {
		t.Fatal(err)
	}
	var tasks []task
	for _, s := range project.Services {
		if s.Image != image(t) || !s.ReadOnly || s.User != "65532:65532" || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: %+v", s.Name, s)
		}
		drain, err := time.ParseDuration(flag(s.Command, "drain"))
		if err != nil || s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= drain {
			t.Errorf("%s is killed before it has drained for %v: %v", s.Name, drain, err)
		}
		if s.HealthCheck == nil || len(s.HealthCheck.Test) < 3 || s.HealthCheck.Test[0] != "CMD" || s.HealthCheck.Test[1] != "troupe" {
			t.Fatalf("%s: health check %+v", s.Name, s.HealthCheck)
		}
		index := flag(s.Command, "task")
		if index == "" {
			index = "0"
		}
		tasks = append(tasks, task{name: flag(s.Command, "job") + ":" + index, address: s.Name + ":2222", args: s.Command, health: s.HealthCheck.Test[2:]})
	}
	if len(tasks) != 3 {
		t.Errorf("%d services", len(tasks))
	}
	declared(t, tasks)
	runCluster(t, tasks, nil)
}

// troupe is the command, which TestMain builds.
var troupe string

func TestMain(m *testing.M) { os.Exit(testAll(m)) }

func testAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "troupe")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	troupe = filepath.Join(dir, "troupe")
	cmd := exec.Command("go", "build", "-o", troupe, "./cmd/troupe")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, out)
		return 1
	}
	return m.Run()
}

// patience bounds every wait.
const patience = 30 * time.Second

// runCluster starts tasks with their arguments, on addresses of this machine in place of their own. All must come up, answer what
// the probes ask, and end in order. files are those of the config map.
func runCluster(t *testing.T, tasks []task, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { // keys are made in it
		t.Fatal(err)
	}
	port, web := freePort(t), freePort(t)
	var replaced []string
	for i, one := range tasks {
		host, _, err := net.SplitHostPort(one.address)
		if err != nil {
			t.Fatal(err)
		}
		replaced = append(replaced, host+":2222", fmt.Sprintf("127.0.1.%d:%s", i+1, port))
	}
	here := func(i int, text string) string {
		text = strings.NewReplacer(replaced...).Replace(text)
		text = strings.NewReplacer("0.0.0.0:9090", fmt.Sprintf("127.0.1.%d:%s", i+1, web), "/etc/troupe/tls", dir, "/etc/troupe/policy", dir).Replace(text)
		return text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var shown []string // what clients show
	if flag(tasks[0].args, "tls-cert") != "" {
		run(t, "certs", "init", "--cluster", here(0, flag(tasks[0].args, "cluster")), "--out", dir, "--client", "alice")
		run(t, "secret", "new", filepath.Join(dir, "cluster.secret"))
		shown = []string{"--tls-ca=" + dir + "/ca.pem", "--tls-cert=" + dir + "/client-alice.pem", "--tls-key=" + dir + "/client-alice-key.pem"}
	}
	var running []*exec.Cmd
	var logs []*bytes.Buffer
	for i, one := range tasks {
		args := make([]string, len(one.args))
		for k, a := range one.args {
			args[k] = here(i, a)
		}
		cmd := exec.CommandContext(t.Context(), troupe, args...)
		log := &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr, cmd.Env = log, log, os.Environ()
		for _, e := range one.env {
			cmd.Env = append(cmd.Env, here(i, e))
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running, logs = append(running, cmd), append(logs, log)
	}
	target := here(0, tasks[0].address)
	run(t, append([]string{"wait", "--ready", target, "--timeout", patience.String()}, shown...)...)
	kubelet := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // as the kubelet asks
	for i, one := range tasks {
		for _, p := range one.probes {
			scheme := strings.ToLower(string(p.HTTPGet.Scheme))
			if scheme == "" {
				scheme = "http"
			}
			url := fmt.Sprintf("%s://127.0.1.%d:%s%s", scheme, i+1, web, p.HTTPGet.Path)
			// A task is up for others a moment before it is ready: as the kubelet, this asks again.
			for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
				answer, err := kubelet.Get(url)
				if err != nil {
					t.Errorf("%s: %v", one.name, err)
					break
				}
				if err := answer.Body.Close(); err != nil {
					t.Error(err)
				}
				if answer.StatusCode == http.StatusOK {
					break
				}
				if time.Now().After(end) {
					t.Errorf("%s: %s answers %s", one.name, url, answer.Status)
					break
				}
			}
		}
		if len(one.health) > 0 {
			args := make([]string, len(one.health))
			for k, a := range one.health {
				args[k] = here(i, a)
			}
			run(t, args...)
		}
	}
	for i, cmd := range running {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v: %s", tasks[i].name, err, logs[i])
		}
	}
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), troupe, args...).CombinedOutput(); err != nil {
		t.Fatalf("troupe %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// freePort returns a port that is free at 127.0.1.1 and the like, which no other test takes before this one has ended.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.4:0") // claims the port
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
