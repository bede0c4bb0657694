//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/e2e/internal/metamorphic"
	"google.golang.org/protobuf/proto"
)

// py is a program of programs/.
func py(file string, args ...string) part {
	return part{request: &request{Program: "programs/" + file, Args: args}}
}

// waiting is a part that does not end by itself.
func waiting(p part) part {
	p.waits = true
	return p
}

func stagesOf(s ...stage) func(testing.TB, *ground) []stage {
	return func(testing.TB, *ground) []stage { return s }
}

var aNumber = regexp.MustCompile(`-?\d+(\.\d+)?(e[+-]\d+)?`)

// numbersAside masks the numbers of programs that compute different ones each time.
func numbersAside(s string) string { return aNumber.ReplaceAllString(s, "#") }

// programWares are the programs of programs/, with arguments.
var programWares = map[string]ware{
	"arithmetic.py":  {stages: stagesOf(stage{py("arithmetic.py", "{worker:0}")})},
	"counter.py":     {stages: stagesOf(stage{py("counter.py", "{worker:0}", "new")}, stage{py("counter.py", "{worker:1}")})},
	"departments.py": {stages: stagesOf(stage{py("departments.py", "{worker:0}", "{worker:1}")}), same: lastLine},
	"freeze.py":      {stages: stagesOf(stage{py("freeze.py", "{dir}/graph", "{dir}/values")})},
	"iterator.py": {stages: stagesOf(stage{py("iterator.py", "begin", "{worker:0}", "{dir}/state")}, stage{py("iterator.py", "save", "{worker:1}", "{dir}/state")},
		stage{py("iterator.py", "restore", "{worker:0}", "{dir}/state")},
		stage{waiting(py("iterator.py", "wait", "{worker:0}", "{dir}/state"))}, stage{py("iterator.py", "give", "{worker:1}", "{dir}/state")})},
	"optimizers.py":       {stages: stagesOf(stage{py("optimizers.py", "{worker:0}", "adam", "20")}), same: numbersAside},
	"pipeline.py":         {stages: stagesOf(stage{py("pipeline.py", "load", "{worker:0}", "200"), py("pipeline.py", "learn", "{worker:1}", "200")})},
	"random_graphs.py":    {stages: randomGraphs},
	"rows.py":             {stages: stagesOf(stage{py("rows.py", "put", "{worker:0}", "rows", "5000", "100"), py("rows.py", "take", "{worker:1}", "rows", "5000", "100")})},
	"table_of_dataset.py": {stages: stagesOf(stage{py("table_of_dataset.py", "{worker:0}")})},
	"train.py": {stages: stagesOf(stage{py("train.py", "{address ps:0}", "{address worker:0},{address worker:1}", "0", "100"),
		py("train.py", "{address ps:0}", "{address worker:0},{address worker:1}", "1", "100")}), same: numbersAside},
	"watched.py": {stages: stagesOf(stage{py("watched.py", "{worker:0}", "{new}")})},
	"whose.py":   {stages: stagesOf(stage{py("whose.py", "{worker:0}", "{worker:1}", "{new}")})},
}

// elsewhere are programs that need a cluster which TestRuns does not have.
var elsewhere = map[string]string{
	"far.py":     "it needs tasks that are far away: TestFarTasks",
	"secured.py": "it needs certificates and a policy: TestSecuredCluster",
}

// nothing is for programs whose output differs each time, or whose parts specify it.
func nothing(string) string { return "" }

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// randomGraphs returns the stages of a few random programs, which TensorFlow's own servers also run.
func randomGraphs(t testing.TB, g *ground) []stage {
	writeRandomGraphs(t, g.dir, 1, 3)
	return []stage{{py("random_graphs.py", g.dir, "{worker:0}")}}
}

// writeRandomGraphs writes random programs in the form that random_graphs.py reads.
func writeRandomGraphs(t testing.TB, dir string, seed, n uint64) {
	t.Helper()
	for s := seed; s < seed+n; s++ {
		p := metamorphic.Of(s)
		e := metamorphic.Export(p, fmt.Sprintf("program%d_", s), []string{"/job:worker/task:0", "/job:worker/task:1"})
		def, err := proto.Marshal(e.Graph)
		if err != nil {
			t.Fatal(err)
		}
		about, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, fmt.Sprintf("graph%06d", s))
		for suffix, content := range map[string][]byte{".pb": def, ".json": about, ".txt": []byte(p.String())} {
			if err := os.WriteFile(name+suffix, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// exampleWares are the examples, with arguments. Those without a cluster have their own.
var exampleWares = map[string]struct {
	jobs   string
	args   []string
	same   func(string) string
	needs  string   // the flag that names a Python
	beside []string // arguments of a second process
	serves bool     // it does not end: its own test runs it
}{
	"counter":     {serves: true},
	"digits":      {jobs: "ps=1,worker=1", args: []string{"-worker", "{worker:0}", "-dir", "{dir}", "-steps", "40"}, same: numbersAside},
	"hello":       {},
	"images":      {jobs: "ps=1,worker=1", args: []string{"-worker", "{worker:0}", "-images", "2000"}, same: numbersAside, needs: "-python"},
	"linear":      {jobs: "ps=1,worker=2", args: []string{"-workers", "{worker:0},{worker:1}"}, same: numbersAside},
	"paramserver": {same: numbersAside},
	"pipeline":    {jobs: "worker=1", args: []string{"-target", "{worker:0}"}, beside: []string{"-target", "{worker:0}", "-produce", "1000"}},
	"pool":        {},
	"serving":     {},
	"wordcount":   {},
}

// documentsWithPrograms returns the documents whose Python programs run.
func documentsWithPrograms(t testing.TB) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"../*.md", "../python/*.md", "../docs/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte("\n```python\n")) {
				found = append(found, path)
			}
		}
	}
	return found
}

// documentStages returns the programs of a document, in their order.
func documentStages(t testing.TB, g *ground, path string) []stage {
	t.Helper()
	python := needPython(t)
	for name, text := range map[string]string{"data/part-0": strings.Repeat("1 2\n", 100), "logs/none": ""} {
		file := filepath.Join(g.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := append([]string{"PS={ps:0}", "WORKER0={worker:0}", "WORKER1={worker:1}", "DATA={dir}/data", "LOGS={dir}/logs"}, documentEnv(t, path)...)
	list := exec.CommandContext(t.Context(), python, "clients/programs.py", "--list", path)
	list.Env = os.Environ()
	filled, err := g.fillAll(env)
	if err != nil {
		t.Fatal(err)
	}
	list.Env = append(list.Env, filled...)
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var programs []struct {
		Text          string
		Beside, Waits bool
		Fails         string
		Prints        []string
	}
	if err := json.Unmarshal(out, &programs); err != nil {
		t.Fatal(err)
	}
	var stages []stage
	var s stage
	for _, p := range programs {
		c := part{command: []string{python, "-c", p.Text}, env: env, waits: p.Waits, fails: p.Fails}
		if len(p.Prints) > 0 {
			c.prints = strings.Join(p.Prints, "\n") + "\n"
		}
		s = append(s, c)
		if !p.Beside {
			stages, s = append(stages, s), nil
		}
	}
	return stages
}

// wareGroups returns all programs. Each has a cluster of its own, except for cases: those of a file share a cluster, and their containers
// keep them apart.
func wareGroups(t testing.TB) []group {
	t.Helper()
	var groups []group
	python := needPython(t)
	add := func(name, jobs string, w ware, flags ...string) {
		w.name = name
		groups = append(groups, group{name: name, jobs: jobs, flags: flags, wares: []ware{w}})
	}
	for _, path := range glob(t, "../examples/*/main.go") {
		name := filepath.Base(filepath.Dir(path))
		e, known := exampleWares[name]
		if !known {
			t.Errorf("exampleWares does not have %s", name)
			continue
		}
		if e.serves {
			continue
		}
		add("examples/"+name, e.jobs, ware{same: e.same, stages: func(t testing.TB, g *ground) []stage {
			program := filepath.Join(scratch, "example-"+name)
			build := exec.Command("go", "build", "-o", program, "./examples/"+name)
			build.Dir = ".."
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			args := e.args
			if e.needs != "" {
				args = append(args, e.needs, python)
			}
			// Its files are found from the repository's root.
			run := []string{"env", "-C", "..", program}
			all := stage{{command: slices.Concat(run, args)}}
			if e.beside != nil {
				all = append(all, part{command: slices.Concat(run, e.beside)})
			}
			return []stage{all}
		}})
	}
	for _, path := range documentsWithPrograms(t) {
		add(strings.TrimPrefix(path, "../"), "data=1,ps=1,worker=2", ware{same: nothing, stages: func(t testing.TB, g *ground) []stage { return documentStages(t, g, path) }},
			"--process-memory", "256MiB") // as in troubleshooting.md
	}
	for _, path := range glob(t, "programs/*.py") {
		name := filepath.Base(path)
		w, known := programWares[name]
		switch {
		case known:
			add("programs/"+name, "ps=1,worker=2", w)
		case elsewhere[name] == "":
			t.Errorf("programWares does not have %s", name)
		}
	}
	for _, path := range glob(t, "cases/*.py") {
		file := strings.TrimSuffix(filepath.Base(path), ".py")
		p := group{name: "cases/" + file, jobs: "ps=1,worker=2"}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range caseFunction.FindAllStringSubmatch(string(text), -1) {
			name := strings.TrimPrefix(m[1], "test_")
			p.wares = append(p.wares, ware{name: p.name + "/" + name, container: file + "_" + name, same: nothing,
				stages: stagesOf(stage{{request: &request{Case: path, Function: m[1], Name: file + "_" + name}}})})
		}
		groups = append(groups, p)
	}
	return groups
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v, %v", pattern, paths, err)
	}
	return paths
}
