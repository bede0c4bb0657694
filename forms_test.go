package troupe

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/internal/network/simnet"
	"github.com/troupe-run/troupe/remote/spec"
)

// shapes are clusters as public programs declare them, by job.
var shapes = map[string]SparseClusterSpec{
	"parameter servers and workers": {"ps": {0: "10.0.0.1:2222"}, "worker": {0: "10.0.0.2:2222", 1: "10.0.0.3:2222"}},
	"with a chief":                  {"chief": {0: "10.0.0.1:2222"}, "ps": {0: "10.0.0.2:2222"}, "worker": {0: "10.0.0.3:2222"}},
	"with a master":                 {"master": {0: "10.0.0.1:2222"}, "ps": {0: "10.0.0.2:2222"}, "worker": {0: "10.0.0.3:2222"}},
	"with an evaluator":             {"evaluator": {0: "10.0.0.1:2222"}, "worker": {0: "10.0.0.2:2222"}},
	"workers alone":                 {"worker": {0: "10.0.0.1:2222", 1: "10.0.0.1:2223"}},
	"one task":                      {"local": {0: "10.0.0.1:2222"}},
	"one task, any port":            {"worker": {0: "localhost:0"}},
	"a sparse job":                  {"ps": {0: "10.0.0.1:2222"}, "worker": {1: "10.0.0.2:2222"}},
	"far indices":                   {"ps": {3: "10.0.0.1:2222", 7: "10.0.0.2:2222"}},
	"a job without tasks":           {"ps": {}, "worker": {0: "10.0.0.1:2222"}},
	"names with underscores":        {"param_server": {0: "my_host_1:2222"}, "w_2": {0: "my_host_2:2222"}},
	"upper case":                    {"PS": {0: "Host-1.Example:2222"}, "ps": {0: "host-2.example:2222"}},
	"IPv6":                          {"ps": {0: "[fd00::1]:2222"}, "worker": {0: "[fd00::2]:2222"}},
	"own names":                     {"ps": {0: "10.0.0.2:2222"}, "worker": {0: "0.0.0.0:2222"}},
}

// All ways to declare a cluster declare the same tasks, and each task starts.
func TestForms(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			lists, dense := ClusterSpec{}, true
			tasks := 0
			for job, of := range shape {
				lists[job] = []string{}
				for i := range len(of) {
					lists[job] = append(lists[job], of[i])
					dense = dense && of[i] != ""
				}
				tasks += len(of)
			}
			for _, job := range slices.Sorted(maps.Keys(shape)) {
				for _, index := range slices.Sorted(maps.Keys(shape[job])) {
					want := &corepb.ServerDef{}
					check := func(form string, def *corepb.ServerDef, err error) {
						t.Helper()
						if err == nil && want.Cluster == nil {
							want = def
						}
						if err != nil || def.JobName != job || int(def.TaskIndex) != index || def.Cluster.String() != want.Cluster.String() {
							t.Errorf("%s of %s %d: %v, %v", form, job, index, def, err)
						}
					}
					place := []Option{WithJob(job), WithTask(index)}
					sparse, err := Resolve(shape, place...)
					check("a sparse map", sparse, err)
					if dense {
						def, err := Resolve(lists, place...)
						check("lists", def, err)
					}
					def, err := Resolve(sparse.Cluster, place...)
					check("a ClusterDef", def, err)
					def, err = Resolve(sparse)
					check("a ServerDef", def, err)
					for form, text := range texts(t, shape, lists, dense, job, index, tasks) {
						var s *spec.Spec
						self := spec.Task{Job: job, Index: index}
						if strings.HasPrefix(form, "TF_CONFIG") {
							s, self, err = spec.FromTFConfig([]byte(text))
						} else {
							s, err = spec.Parse(text)
						}
						if err != nil {
							t.Errorf("%s, %s: %v", form, text, err)
							continue
						}
						check(form, &corepb.ServerDef{Cluster: s.Proto(), JobName: self.Job, TaskIndex: int32(self.Index)}, nil)
					}
					synctest.Test(t, func(t *testing.T) { startsAlone(t, shape, job, index) })
				}
			}
		})
	}
}

// texts are the forms that are text.
func texts(t *testing.T, shape SparseClusterSpec, lists ClusterSpec, dense bool, job string, index, tasks int) map[string]string {
	t.Helper()
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var jobs []string
	for name, of := range shape {
		var list []string
		for _, i := range slices.Sorted(maps.Keys(of)) {
			list = append(list, strconv.Itoa(i)+"@"+of[i])
		}
		jobs = append(jobs, name+"="+strings.Join(list, ","))
	}
	task := fmt.Sprintf(`"task": {"type": %q, "index": %d}`, job, index)
	all := map[string]string{
		"a flag":                          strings.Join(jobs, ";"),
		"TF_CONFIG with objects":          `{"cluster": ` + encode(shape) + `, ` + task + `}`,
		"TF_CONFIG with a text as index":  fmt.Sprintf(`{"task": {"index": "%d", "type": %q}, "cluster": %s, "environment": "cloud"}`, index, job, encode(shape)),
		"TF_CONFIG with a sparse cluster": `{"sparseCluster": ` + encode(shape) + `, ` + task + `}`,
		"TF_CONFIG with other keys":       `{"cluster": ` + encode(shape) + `, ` + task + `, "rpc_layer": "grpc", "model_dir": "m"}`,
	}
	if dense {
		all["TF_CONFIG with lists"] = `{"cluster": ` + encode(lists) + `, ` + task + `}`
	}
	if len(shape[job]) == 1 {
		all["TF_CONFIG without an index"] = fmt.Sprintf(`{"cluster": %s, "task": {"type": %q}}`, encode(shape), job)
	}
	if tasks == 1 {
		all["TF_CONFIG without a task"] = `{"cluster": ` + encode(shape) + `}`
		all["TF_CONFIG with an empty task"] = `{"cluster": ` + encode(shape) + `, "task": {}}`
		all["TF_CONFIG with null for a task"] = `{"cluster": ` + encode(shape) + `, "task": null}`
	}
	return all
}

// startsAlone starts a task of a cluster, on a machine that has the host of its address.
func startsAlone(t *testing.T, shape SparseClusterSpec, job string, index int) {
	t.Helper()
	host, _, err := spec.SplitAddress(shape[job][index])
	if err != nil {
		t.Fatal(err)
	}
	n := simnet.New(1)
	ip := host
	switch {
	case spec.Local(shape[job][index]):
		ip = "10.0.0.9"
	case net.ParseIP(host) == nil:
		ip = "10.0.0.9"
		n.Name(host, ip)
	}
	process := n.Host(ip).Process()
	s, err := NewServer(t.Context(), shape, WithJob(job), WithTask(index), silent, onNetwork(process))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	pass(time.Minute) // gossip's probes end
}
