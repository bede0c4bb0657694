package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// step returns the variables that srun sets for a process.
func step(process, nodes, counts, tasks string) map[string]string {
	return map[string]string{slurmProcess: process, slurmNodes: nodes, slurmCounts: counts, slurmTasks: tasks}
}

// with adds variables.
func with(env map[string]string, more ...string) map[string]string {
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return env
}

func fromSlurm(env map[string]string, jobs map[string]int, port int) (*Spec, Task, error) {
	return FromSlurm(func(name string) (string, bool) { text, ok := env[name]; return text, ok }, jobs, port)
}

func TestSlurmSteps(t *testing.T) {
	for name, c := range map[string]struct {
		env        map[string]string
		jobs       map[string]int
		port       int
		want, self string
	}{
		"workers": {step("1", "n1", "2", "2"), nil, SlurmPort, "worker=n1:8888,n1:8889", "/job:worker/replica:0/task:1"},
		"jobs over nodes": {step("0", "n[1-4]", "1(x4)", "4"), map[string]int{"ps": 1, "worker": 3}, SlurmPort,
			"ps=n1:8888;worker=n2:8888,n3:8888,n4:8888", "/job:ps/replica:0/task:0"},
		"uneven": {step("6", "a[08-10],b", "2(x3),1", "7"), map[string]int{"worker": 5, "ps": 2}, 3000,
			"ps=a08:3000,a08:3001;worker=a09:3000,a09:3001,a10:3000,a10:3001,b:3000", "/job:worker/replica:0/task:4"},
		// The cluster is that of TensorFlow's resolver: by the nodes' names, whatever their order in the list. The process is a task on its own
		// node, which is n10: Slurm numbers tasks in the list's order.
		"nodes by name": {step("1", "n2,n10,n1", "1,2,3", "6"), nil, SlurmPort,
			"worker=n1:8888,n1:8889,n1:8890,n10:8888,n10:8889,n2:8888", "/job:worker/replica:0/task:3"},
		"the first node is not the first name": {step("0", "n[9-10]", "1(x2)", "2"), map[string]int{"ps": 1, "worker": 1}, SlurmPort,
			"ps=n10:8888;worker=n9:8888", "/job:worker/replica:0/task:0"},
		// srun --distribution=cyclic
		"numbered across nodes": {with(step("1", "n[1-2]", "2(x2)", "4"), slurmNode, "n2", slurmLocal, "0"), nil, SlurmPort,
			"worker=n1:8888,n1:8889,n2:8888,n2:8889", "/job:worker/replica:0/task:2"},
		"another name of the node": {with(step("1", "n[1-2]", "2(x2)", "4"), slurmNode, "node2", slurmLocal, "1"), nil, SlurmPort,
			"worker=n1:8888,n1:8889,n2:8888,n2:8889", "/job:worker/replica:0/task:1"},
		"the rest": {step("3", "n[1-4]", "1(x4)", "4"), map[string]int{"ps": 1, "worker": SlurmRest}, SlurmPort,
			"ps=n1:8888;worker=n2:8888,n3:8888,n4:8888", "/job:worker/replica:0/task:2"},
		"no step": {map[string]string{slurmProcess: "0", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_NTASKS": "2"}, nil, SlurmPort,
			"worker=n1:8888,n2:8888", "/job:worker/replica:0/task:0"},
		"job without tasks": {step("0", "n", "1", "1"), map[string]int{"ps": 0, "worker": 1}, SlurmPort, "worker=n:8888", "/job:worker/replica:0/task:0"},
		"total is not needed with jobs": {map[string]string{slurmProcess: "0", slurmNodes: "n", slurmCounts: "1"}, map[string]int{"chief": 1}, SlurmPort,
			"chief=n:8888", "/job:chief/replica:0/task:0"},
	} {
		s, self, err := fromSlurm(c.env, c.jobs, c.port)
		if err != nil || s.String() != c.want || self.Name() != c.self {
			t.Errorf("%s: %v, %v, %v; want %s and %s", name, s, self, err, c.want, c.self)
		}
	}
}

func TestSlurmNodeLists(t *testing.T) {
	for list, want := range map[string]string{
		"n1":                     "n1",
		"n1,n2":                  "n1 n2",
		"n[1-2],m5,o[3-4,6,7-9]": "n1 n2 m5 o3 o4 o6 o7 o8 o9",
		"n[08-11]":               "n08 n09 n10 n11",
		"n[001,3-4]":             "n001 n3 n4",
		"n[9-10]-ib":             "n9-ib n10-ib",
		"r[1-2]n[01-02,5]":       "r1n01 r1n02 r1n5 r2n01 r2n02 r2n5",
		"r[1-2]n[3]x[4-5].hpc,z": "r1n3x4.hpc r1n3x5.hpc r2n3x4.hpc r2n3x5.hpc z",
		"[1-3]":                  "1 2 3",
	} {
		got, err := expandHosts(list, 100)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v; want %s", list, got, err, want)
		}
	}
	for list, want := range map[string]string{
		"":                                      "a name is empty",
		"n1,":                                   "a name is empty",
		"n1,,n2":                                "a name is empty",
		"n[1":                                   "the bracket at byte 1 is not closed",
		"n1]":                                   "a bracket is closed at byte 2",
		"n[[1]]":                                "a bracket is opened inside brackets at byte 2",
		"n[]":                                   `"" in brackets is not a number`,
		"n[1-]":                                 `"1-" in brackets is not a number`,
		"n[a-b]":                                `"a-b" in brackets is not a number`,
		"n[1-2-3]":                              `"1-2-3" in brackets is not a number`,
		"n[+1]":                                 `"+1" in brackets is not a number`,
		"n[3-1]":                                `the range "3-1" ends before it begins`,
		"n[99999999999]":                        "in brackets is not a number or a range of numbers up to 2147483647",
		"n[1-101]":                              "are more than 100 numbers",
		"n[1-60,1-60]":                          "are more than 100 numbers",
		"n[0-2147483647]":                       "are more than 100 numbers",
		"n[1-20]m[1-20]":                        "stands for more than 100 hosts",
		"n[1-60],m[1-60]":                       "it has more than 100 hosts",
		"n" + strings.Repeat("x", 300):          "names of more than 255 bytes",
		"n[" + strings.Repeat("0", 300) + "-1]": "names of more than 255 bytes",
	} {
		if got, err := expandHosts(list, 100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d hosts, %v; want %s", list, len(got), err, want)
		}
	}
}

func TestBadSlurmSteps(t *testing.T) {
	good := step("0", "n[1-2]", "2(x2)", "4")
	for _, c := range []struct {
		name, value string // of the only variable that differs
		want        string
	}{
		{slurmProcess, "", `Could not interpret SLURM_PROCID, which is "": it is not a number`},
		{slurmProcess, "-1", `Could not interpret SLURM_PROCID, which is "-1"`},
		{slurmProcess, "4", "SLURM_PROCID is 4: the step has the tasks 0 to 3"},
		{slurmTasks, "x", `Could not interpret SLURM_STEP_NUM_TASKS, which is "x"`},
		{slurmTasks, "5", "SLURM_STEP_NUM_TASKS is 5, but the nodes of the step have 4 tasks together"},
		{slurmNodes, "n[1-2", `Could not interpret SLURM_STEP_NODELIST, which is "n[1-2": the bracket at byte 1 is not closed`},
		{slurmNodes, "n[1-40000]", "are more than 32768 numbers"},
		{slurmNodes, "n1,n1", "it lists n1 twice"},
		{slurmNodes, "n1,h/x", `'/' cannot be part of a host`},
		{slurmNodes, strings.Repeat("n", 2<<20), "SLURM_STEP_NODELIST has 2097152 bytes, more than 1048576"},
		{slurmCounts, "", `Could not interpret SLURM_STEP_TASKS_PER_NODE, which is "": "" is not a number of tasks`},
		{slurmCounts, "2(3)", `"2(3)" is not a number of tasks, such as 2, or 2(x3) for three nodes`},
		{slurmCounts, "2", `it is about 1 nodes, and SLURM_STEP_NODELIST lists 2, "n[1-2]"`},
		{slurmCounts, "2(x3)", "it is about 3 nodes"},
		{slurmCounts, "2(x99999)", "it is about more than 32768 nodes"},
		{slurmCounts, "20000(x2)", "they are more than 32768 tasks"},
		{slurmCounts, "99999999999", "are more than 32768 tasks"},
		{slurmCounts, "0(x2)", `"0(x2)" stands for no task`},
		{slurmCounts, "2(x0)", `"2(x0)" stands for no task`},
	} {
		env := maps.Clone(good)
		env[c.name] = c.value
		if _, _, err := fromSlurm(env, nil, SlurmPort); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 600 {
			t.Errorf("%s=%.40s: %v, want %s", c.name, c.value, err, c.want)
		}
	}
	for local, want := range map[string]string{"2": "SLURM_LOCALID is 2, but SLURM_STEP_TASKS_PER_NODE has 2 tasks on n2", "x": `Could not interpret SLURM_LOCALID, which is "x"`} {
		if _, _, err := fromSlurm(with(maps.Clone(good), slurmNode, "n2", slurmLocal, local), nil, SlurmPort); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: %v, want %s", slurmLocal, local, err, want)
		}
	}
	for name := range good {
		env := maps.Clone(good)
		delete(env, name)
		if _, _, err := fromSlurm(env, nil, SlurmPort); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), name+" is not in the environment: start the process with srun") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for want, jobs := range map[string]map[string]int{
		`The jobs have 3 tasks together, and the step has 4: SLURM_STEP_TASKS_PER_NODE is "2(x2)"`: {"ps": 1, "worker": 2},
		`The job "ps" has -2 tasks`:                            {"ps": -2, "worker": 6},
		`The jobs "ps" and "worker" cannot both have the rest`: {"ps": SlurmRest, "worker": SlurmRest},
		"The jobs have 5 tasks together, and the step has 4":   {"ps": 5, "worker": SlurmRest},
		`The job "w" has 99999999`:                             {"w": 99999999},
		`"a-b" is not a job name`:                              {"a-b": 4},
	} {
		if _, _, err := fromSlurm(good, jobs, SlurmPort); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", jobs, err, want)
		}
	}
	for _, port := range []int{-1, 0, 65535} {
		if _, _, err := fromSlurm(good, nil, port); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "which are not in [1, 65535]") {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

func FuzzSlurm(f *testing.F) {
	f.Add("0", "n[1-4]", "1(x4)", "4", 8888)
	f.Add("6", "a[08-10],b", "2(x3),1", "7", 1)
	f.Add("0", "r[1-2]n[01-02,5]", "1(x6)", "6", 65535)
	f.Add("", "n[", "1(x", "-", 0)
	f.Fuzz(func(t *testing.T, process, nodes, counts, tasks string, port int) {
		s, self, err := fromSlurm(step(process, nodes, counts, tasks), nil, port)
		if err != nil {
			if status.CodeOf(err) != status.InvalidArgument {
				t.Fatalf("code %v: %v", status.CodeOf(err), err)
			}
			return
		}
		if fmt.Sprint(s.Len()) != strings.TrimLeft(tasks, "0") || !slices.Contains(s.Tasks(), self) {
			t.Fatalf("%q, %q, %q: %d tasks, of which it is %v", nodes, counts, tasks, s.Len(), self)
		}
	})
}
