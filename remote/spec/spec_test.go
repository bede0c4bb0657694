package spec

import (
	"strings"
	"testing"

	clusterpb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

func TestFormsAgree(t *testing.T) {
	text, err := Parse(" worker = h:2, h:3 ,7@h:4,[::1]:5;ps=localhost:1")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := text.String(), "ps=localhost:1;worker=h:2,h:3,7@h:4,[::1]:5"; got != want {
		t.Errorf("String: %s, want %s", got, want)
	}
	proto, err := FromProto(text.Proto())
	if err != nil {
		t.Fatal(err)
	}
	env, self, err := FromTFConfig([]byte(`{"environment":"cloud","task":{"type":"worker","index":"7"},
		"cluster":{"ps":["localhost:1"],"worker":{"0":"h:2","1":"h:3","7":"h:4","8":"[::1]:5"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(text) || !env.Equal(text) || proto.Clash("", env, "") != "" {
		t.Errorf("hashes: text %s, proto %s, TF_CONFIG %s", text.Hash(), proto.Hash(), env.Hash())
	}
	if self.Name() != "/job:worker/replica:0/task:7" || self.Address != "h:4" {
		t.Errorf("self: %v", self)
	}
	if task, ok := text.ByAddress("[::1]:5"); !ok || task.Index != 8 {
		t.Errorf("by address: %v %v", task, ok)
	}
	if got := strings.Join(text.Jobs(), " "); got != "ps worker" {
		t.Errorf("jobs: %s", got)
	}
}

// TestTFConfigOfKubeflow parses the TF_CONFIG that Kubeflow's training operator sets in each pod of a TFJob, with the names of Services.
// Evaluators get the cluster without being in it.
func TestTFConfigOfKubeflow(t *testing.T) {
	const cluster = `{"cluster":{"chief":["mnist-chief-0.kubeflow.svc:2222"],"ps":["mnist-ps-0.kubeflow.svc:2222","mnist-ps-1.kubeflow.svc:2222"],` +
		`"worker":["mnist-worker-0.kubeflow.svc:2222","mnist-worker-1.kubeflow.svc:2222"]},`
	const want = "chief=mnist-chief-0.kubeflow.svc:2222;ps=mnist-ps-0.kubeflow.svc:2222,mnist-ps-1.kubeflow.svc:2222;" +
		"worker=mnist-worker-0.kubeflow.svc:2222,mnist-worker-1.kubeflow.svc:2222"
	for task, name := range map[string]string{
		`"task":{"type":"chief","index":0},"environment":"cloud"}`:  "/job:chief/replica:0/task:0",
		`"task":{"type":"ps","index":1},"environment":"cloud"}`:     "/job:ps/replica:0/task:1",
		`"task":{"type":"worker","index":1},"environment":"cloud"}`: "/job:worker/replica:0/task:1",
	} {
		s, self, err := FromTFConfig([]byte(cluster + task))
		if err != nil || s.String() != want || self.Name() != name {
			t.Errorf("%s: %v, %v, %v", task, s, self, err)
		}
	}
	_, _, err := FromTFConfig([]byte(cluster + `"task":{"type":"evaluator","index":0},"environment":"cloud"}`))
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), `Job "evaluator" was not defined in cluster`) {
		t.Errorf("evaluator: %v", err)
	}
	// With enableDynamicWorker, a worker is told only about itself and the parameter servers.
	sparse, self, err := FromTFConfig([]byte(`{"sparseCluster":{"worker":{"1":"w-1.kubeflow.svc:2222"},"ps":["p-0.kubeflow.svc:2222"]},"task":{"type":"worker","index":1}}`))
	if err != nil || sparse.String() != "ps=p-0.kubeflow.svc:2222;worker=1@w-1.kubeflow.svc:2222" || self.Name() != "/job:worker/replica:0/task:1" {
		t.Errorf("sparse cluster: %v, %v, %v", sparse, self, err)
	}
}

// TestJobsWithoutTasks checks that a job without tasks counts as absent, in every form.
func TestJobsWithoutTasks(t *testing.T) {
	want, err := Parse("worker=h:2")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Parse("ps=; worker=h:2")
	if err != nil {
		t.Fatal(err)
	}
	def := want.Proto()
	def.Job = append(def.Job, &clusterpb.JobDef{Name: "ps"})
	proto, err := FromProto(def)
	if err != nil {
		t.Fatal(err)
	}
	env, _, err := FromTFConfig([]byte(`{"cluster": {"ps": [], "worker": ["h:2"]}, "task": {"type": "worker", "index": 0}}`))
	if err != nil {
		t.Fatal(err)
	}
	for form, s := range map[string]*Spec{"text": text, "ClusterDef": proto, "TF_CONFIG": env} {
		if !s.Equal(want) || strings.Join(s.Jobs(), " ") != "worker" {
			t.Errorf("%s: %v, want %v", form, s, want)
		}
	}
	_, err = text.Task("ps", 0)
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), `Job "ps" was not defined in cluster`) {
		t.Errorf("a task of the job: %v", err)
	}
}

func TestBadSpecs(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "The cluster spec is empty: it must define at least one job with a task.",
		"worker":                 `Could not interpret "worker" as a job of a cluster spec`,
		"worker=":                "The cluster spec is empty: it must define at least one job with a task.",
		"worker=a:1,":            "/job:worker/replica:0/task:1",
		"worker=a:1,a:1":         `Duplicate address "a:1" in the cluster spec: /job:worker/replica:0/task:0 and /job:worker/replica:0/task:1`,
		"a=h:1;b=h:1":            `Duplicate address "h:1"`,
		"a=h:1;a=h:2":            "Duplicate job ID in cluster specification: a",
		"a=0@h:1,0@h:2":          `Duplicate task 0 in job "a"`,
		"a=99999999999@h:1":      `Could not interpret "99999999999"`,
		"w-1=h:1":                `"w-1" is not a job name`,
		"1w=h:1":                 `"1w" is not a job name`,
		"w=h":                    "it has no port",
		"w=:1":                   "it has no host",
		"w=h:65536":              "port 65536 is not in [0, 65535]",
		"w=h:-1":                 `"-1" is not a port`,
		"w=h:01":                 `"01" is not a port`,
		"w=::1:5":                "an IPv6 address must stand in brackets",
		"w=http://h:1":           `leave out "http://"`,
		"w=h:1,grpc://h:2":       `leave out "grpc://"`,
		"w=h/x:1":                `'/' cannot be part of a host`,
		"w=[h]:1":                "only an IPv6 address stands in brackets",
		"w=h:0,h:1":              "port 0",
		"ps=h:1;worker=h:2,h:3;": "no job stands before or after one of its semicolons",
		"ps=h:1;;worker=h:2":     "no job stands before or after one of its semicolons",
		"ps=h:1 worker=h:2":      `the tasks of job "ps": jobs are separated by semicolons`,
		"ps=h:1,worker=h:2":      `the tasks of job "ps": jobs are separated by semicolons`,
	} {
		_, err := Parse(text)
		if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want %s", text, err, want)
		}
	}
}

func TestBadTFConfig(t *testing.T) {
	for text, want := range map[string]string{
		``:                                       "it is empty",
		` `:                                      "it is empty",
		`"cluster"`:                              "it is not an object",
		`{"cluster":{"w":"h:1"}}`:                `Job "w" of TF_CONFIG must be a list of addresses or an object from index to address, not "h:1".`,
		`{"cluster":{"w":["h:1",2]}}`:            `must be a list of addresses or an object from index to address, not ["h:1",2].`,
		`{"cluster":{"w":["h:1"]}`:               "Could not parse TF_CONFIG: it ends before its last closing bracket.",
		`{"cluster":{"w":["h:1"]`:                "Could not parse TF_CONFIG: it ends before its last closing bracket.",
		`[]`:                                     "it is not an object",
		`{}`:                                     `no "cluster"`,
		`{"cluster":{"w":["h:1"]},"cluster":{}}`: `it has "cluster" twice`,
		`{"cluster":{"w":["h:1"],"w":["h:2"]}}`:  `it has "w" twice`,
		`{"cluster":{"w":["h:1","h:2"]}}`:        `needs a "type"`,
		`{"cluster":{"w":["h:1"],"ps":["h:2"]}}`: `needs a "type"`,
		`{"cluster":{"w":["h:1"]},"task":{"index":0}}`:                `needs a "type"`,
		`{"cluster":{"w":["h:1","h:2"]},"task":{"type":"w"}}`:         `needs an "index"`,
		`{"cluster":{"w":["h:1"]},"task":{"type":"w","index":1}}`:     `Task 1 was not defined in job "w"`,
		`{"cluster":{"w":["h:1"]},"task":{"type":"ps","index":0}}`:    `Job "ps" was not defined in cluster, whose jobs are w`,
		`{"cluster":{"w":{"x":"h:1"}},"task":{"type":"w","index":0}}`: "is not the index of a task",
		`{"cluster":{"w":{"0":1}},"task":{"type":"w","index":0}}`:     "needs an address that is a string",
		`{"cluster":{"w":["h:1"]},"task":{"type":"w","index":0}} {}`:  "something follows its end",
		`{"cluster":{"w":["h:1"]},"task":{"type":"w","index":0}`:      "Could not parse TF_CONFIG",
	} {
		if _, _, err := FromTFConfig([]byte(text)); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("FromTFConfig(%s): %v, want %s", text, err, want)
		}
	}
}

func TestClashNamesTheFirstDifference(t *testing.T) {
	const mine, yours = "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"
	for _, c := range []struct{ here, there, want string }{
		{"ps=h:1;worker=h:2,h:3", "ps=h:9;worker=h:2,h:3", "/job:ps/replica:0/task:0 is at h:1 here and at h:9 there"},
		{"ps=h:1;worker=h:2,h:3", "ps=x:1;worker=h:2,h:3", "/job:ps/replica:0/task:0 is at h:1 here and at x:1 there"},
		{"worker=h:2,h:3", "worker=h:3,h:2", "/job:worker/replica:0/task:0 is at h:2 here and at h:3 there"},
		{"worker=a:2,b:2", "worker=b:2,a:2", "b:2 is the address of /job:worker/replica:0/task:1 here and of /job:worker/replica:0/task:0 there"},
		{"worker=me:2,b:2", "worker=a:2,me:2", ""},
		{"worker=a:2,b:2,c:2", "worker=a:2,c:2,b:2", "b:2 is the address of /job:worker/replica:0/task:1 here and of /job:worker/replica:0/task:2 there"},
		{"master=h:1;worker=h:2,h:3", "chief=h:1;worker=h:2,h:3", "h:1 is the address of /job:master/replica:0/task:0 here and of /job:chief/replica:0/task:0 there"},
		{"master=h:1;worker=h:2,h:3", "chief=h:9;worker=h:2,h:3", "/job:master/replica:0/task:0 is at h:1 here and does not exist there, while /job:chief/replica:0/task:0 does not exist here and is at h:9 there"},
		{"worker=h:2,h:3", "worker=h:2,h:4", "/job:worker/replica:0/task:1 is at h:3 here and at h:4 there"},
		// One is a part of the other.
		{"ps=h:1;worker=h:2", "ps=h:1;worker=h:2,h:3", ""},
		{"ps=h:1;worker=h:2,h:3,h:4", "ps=h:1;worker=1@h:3", ""},
		{"worker=h:2", "ps=h:1;worker=h:2,h:3", ""},
		{"ps=h:1;worker=h:2", "ps=h:1;worker=1@h:3", ""},
		{"ps=h:1;worker=h:2", "ps=x:1;worker=1@h:3", "/job:ps/replica:0/task:0 is at h:1 here and at x:1 there"},
		{"ps=h:1;worker=h:2,h:3", "ps=h:1,h:9;worker=1@h:3", "/job:worker/replica:0/task:0 is at h:2 here and does not exist there, while /job:ps/replica:0/task:1 does not exist here and is at h:9 there"},
		{"ps=h:1;worker=h:2", "ps=h:9;worker=h:2,h:3", "/job:ps/replica:0/task:0 is at h:1 here and at h:9 there"},
		{"ps=h:1;worker=h:2", "worker=h:2,h:3;chief=h:1", "h:1 is the address of /job:ps/replica:0/task:0 here and of /job:chief/replica:0/task:0 there"},
		// The tasks' own entries.
		{"ps=h:1;worker=localhost:2,h:3", "ps=h:1;worker=a:2,localhost:3", ""},
		{"ps=h:1;worker=localhost:2,h:3", "ps=h:1;worker=a:2,[::]:3", ""},
		{"ps=h:1;worker=localhost:2,h:2", "ps=h:1;worker=a:2,localhost:2", ""},
		{"ps=h:1;worker=localhost:2", "ps=h:1;worker=a:2,0.0.0.0:2", ""},
		{"worker=localhost:2,h:3", "worker=a:4,h:3", "/job:worker/replica:0/task:0 is at localhost:2 here and at a:4 there"},
		{"ps=localhost:1;worker=localhost:2,h:3", "ps=a:1;worker=a:2,h:3", "/job:ps/replica:0/task:0 is at localhost:1 here and at a:1 there"},
	} {
		here, err := Parse(c.here)
		if err != nil {
			t.Fatal(err)
		}
		there, err := Parse(c.there)
		if err != nil {
			t.Fatal(err)
		}
		if got := here.Clash(mine, there, yours); got != c.want {
			t.Errorf("%s and %s: %q, not %q", c.here, c.there, got, c.want)
		}
		if back := there.Clash(yours, here, mine); (back == "") != (c.want == "") {
			t.Errorf("%s and %s the other way round: %q", c.here, c.there, back)
		}
	}
}

func TestChosenPortTakesItsPlace(t *testing.T) {
	s, err := Parse("local=localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err = s.WithAddress("local", 0, "localhost:4321")
	if err != nil || s.String() != "local=localhost:4321" {
		t.Errorf("%v %v", s, err)
	}
}

func TestTaskNames(t *testing.T) {
	for name, want := range map[string]int{"/job:w_1/replica:0/task:3": 3, "/job:w/task:0": 0, "/job:w/replica:1/task:0": -1, "/job:w": -1,
		"/job:w/task:": -1, "/job:/task:1": -1, "w": -1, "/job:w/task:+1": -1, "w:3": 3, "w_1:0": 0, ":1": -1, "w:": -1, "10.0.0.1:3": -1,
		"w:+1": -1, "job:w/task:1": -1} {
		_, index, err := ParseTaskName(name)
		if err != nil {
			index = -1
		}
		if index != want {
			t.Errorf("%s: %d %v", name, index, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"ps=h:1;worker=h:2,h:3", "a=7@[::1]:80,h:0", "a=h:0", ";", "=", "a=@", "a=1@2@h:3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if status.CodeOf(err) != status.InvalidArgument {
				t.Fatalf("%q: code %v", text, status.CodeOf(err))
			}
			return
		}
		again, err := Parse(s.String())
		if err != nil || !again.Equal(s) || again.String() != s.String() {
			t.Fatalf("%q printed as %q: %v", text, s, err)
		}
		proto, err := FromProto(s.Proto())
		if err != nil || !proto.Equal(s) {
			t.Fatalf("%q through ClusterDef: %v", text, err)
		}
		for _, task := range s.Tasks() {
			if found, ok := s.ByAddress(task.Address); !ok || found != task {
				t.Fatalf("%q: %v not found by its address", text, task)
			}
		}
	})
}

func FuzzTFConfig(f *testing.F) {
	f.Add([]byte(`{"cluster":{"w":["h:1"],"ps":{"3":"h:2"}},"task":{"type":"w","index":0}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, task, err := FromTFConfig(text)
		if err != nil {
			if status.CodeOf(err) != status.InvalidArgument {
				t.Fatalf("code %v", status.CodeOf(err))
			}
			return
		}
		if found, ok := s.ByName(task.Name()); !ok || found != task {
			t.Fatalf("self %v is not in %v", task, s)
		}
	})
}
