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

var aTime = regexp.MustCompile(`# [nµ]s`)

// timesAside is numbersAside for programs that print times, in the units that they have.
func timesAside(s string) string { return aTime.ReplaceAllString(numbersAside(s), "#") }

var aMeasure = regexp.MustCompile(`-?\d+\.\d+(e[+-]\d+)?|\d+ (%|steps/s)`)

// measuresAside masks what programs measure, such as losses, and leaves what they count.
func measuresAside(s string) string { return aMeasure.ReplaceAllString(s, "#") }

// programWares are the programs of programs/, with arguments.
var programWares = map[string]ware{
	"arithmetic.py":  {stages: stagesOf(stage{py("arithmetic.py", "{worker:0}")})},
	"counter.py":     {stages: stagesOf(stage{py("counter.py", "{worker:0}", "new")}, stage{py("counter.py", "{worker:1}")})},
	"departments.py": {stages: stagesOf(stage{py("departments.py", "{worker:0}", "{worker:1}")}), same: lastLine},
	"far.py":         {stages: stagesOf(stage{py("far.py", "{worker:0}", "first")})},
	"freeze.py":      {stages: stagesOf(stage{py("freeze.py", "{dir}/graph", "{dir}/values")})},
	"iterator.py": {stages: stagesOf(stage{py("iterator.py", "begin", "{worker:0}", "{dir}/state")}, stage{py("iterator.py", "save", "{worker:1}", "{dir}/state")},
		stage{py("iterator.py", "restore", "{worker:0}", "{dir}/state")},
		stage{waiting(py("iterator.py", "wait", "{worker:0}", "{dir}/state"))}, stage{py("iterator.py", "give", "{worker:1}", "{dir}/state")})},
	"late.py":             {stages: stagesOf(stage{py("late.py", "{worker:0}", "{run}")})},
	"optimizers.py":       {stages: stagesOf(stage{py("optimizers.py", "{worker:0}", "adam", "20")}), same: numbersAside},
	"pipeline.py":         {stages: stagesOf(stage{py("pipeline.py", "load", "{worker:0}", "200"), py("pipeline.py", "learn", "{worker:1}", "200")})},
	"random_graphs.py":    {stages: randomGraphs},
	"secured.py":          {stages: stagesOf(stage{py("secured.py", "{worker:0}", "{dir}/no-file")})},
	"rows.py":             {stages: stagesOf(stage{py("rows.py", "put", "{worker:0}", "rows", "5000", "100"), py("rows.py", "take", "{worker:1}", "rows", "5000", "100")})},
	"table_of_dataset.py": {stages: stagesOf(stage{py("table_of_dataset.py", "{worker:0}")})},
	"train.py": {stages: stagesOf(stage{py("train.py", "{address ps:0}", "{address worker:0},{address worker:1}", "0", "100"),
		py("train.py", "{address ps:0}", "{address worker:0},{address worker:1}", "1", "100")}), same: numbersAside},
	"watched.py": {stages: stagesOf(stage{py("watched.py", "{worker:0}", "{new}")})},
	"whose.py":   {stages: stagesOf(stage{py("whose.py", "{worker:0}", "{worker:1}", "{new}")})},
}

// clientWares are the programs of clients/ and datasets/, which run in processes of their own. Those without jobs have their own clusters.
var clientWares = map[string]struct {
	jobs string
	args []string
	same func(string) string
}{
	"clients/durable.py":           {args: []string{"1"}},
	"clients/durable_export.py":    {},
	"clients/durable_limit.py":     {},
	"clients/eager.py":             {jobs: "worker=2", args: []string{"{address worker:0}", "{address worker:1}"}},
	"clients/lost_workers.py":      {args: []string{"1", "1"}},
	"clients/parameter_servers.py": {jobs: "ps=1,worker=2", args: []string{"{address worker:0}", "{address worker:1}", "{address ps:0}"}},
	"clients/pictures.py":          {args: []string{"1"}},
	"clients/rests.py":             {jobs: "ps=1,worker=2", args: []string{"{worker:0}", "{worker:1}"}}, // its input ends at once
	"clients/task_states.py":       {},
	"datasets/run.py":              {jobs: "worker=1", args: []string{"--ours", "{worker:0}", "--pipelines", "5"}},
	"datasets/speed.py":            {jobs: "worker=1", args: []string{"--ours", "{worker:0}", "--rounds", "1", "--only", "^range, batch"}, same: timesAside},
}

// elsewhere are files of these folders that TestRuns does not run, and why.
var elsewhere = map[string]string{
	"clients/leave.py":                "its tasks leave, and a second run begins with others: TestLeave",
	"clients/parameter_servers_v1.py": "it has a cluster of its own, and checks what each of its runs trains: TestParameterServersV1",
	"clients/programs.py":             "it runs the programs of documents, which TestRuns runs itself",
	"clients/versions.py":             "it installs other versions of TensorFlow, and runs the tutorial with them: TestClientVersions",
	"datasets/pipelines.py":           "it is a part of run.py",
	"programs/go_functions.py":        "its servers belong to a Go program with functions: TestPythonCallsGoFunctions",
	"examples/glyphs":                 "it is what several examples use",
	"examples/place":                  "it is what several examples use",
}

// fencesElsewhere are the languages of the documents' blocks that TestRuns does not run, and why. Those in Python are marked programs.
var fencesElsewhere = map[string]string{
	"go":      "fragments of programs: fragments_test.go and the examples compile them. The program of README.md runs",
	"mermaid": "pictures",
	"text":    "what commands take and print",
	"yaml":    "policies: internal/conventions reads them",
}

// shortWays are the repetitions that run by default, by group: each kind of program is among them, and each repetition (TestRunsListed).
var shortWays = map[string][]string{
	"examples/pipeline":      {"again", "the-worker-restarted", "killed", "beside-itself"},
	"programs/counter.py":    {"the-ps-restarted", "killed"},
	"cases/critical":         {"again", "killed"},
	"python/README.md":       {"again"},
	"clients/task_states.py": {"killed"},
	"datasets/run.py":        {"the-worker-restarted"},
}

// The kinds of programs.
var wareKinds = []string{"example", "document", "program", "case", "client", "dataset"}

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
	asks   []string // it is a server, and these are a command's arguments
}{
	"counter":     {jobs: "ps=1,worker=2", asks: []string{"ask", "{address worker:0}", "/kind:counter/actor:{run}", `{"@type": "counter.Add", "N": 1}`}},
	"digits":      {jobs: "ps=1,worker=1", args: []string{"-worker", "{worker:0}", "-dir", "{dir}", "-steps", "40"}, same: numbersAside},
	"hello":       {},
	"images":      {jobs: "ps=1,worker=1", args: []string{"-worker", "{worker:0}", "-images", "2000"}, same: measuresAside, needs: "-python"},
	"linear":      {jobs: "ps=1,worker=2", args: []string{"-workers", "{worker:0},{worker:1}"}, same: measuresAside},
	"paramserver": {same: numbersAside},
	"pipeline": {jobs: "worker=1", args: []string{"-target", "{worker:0}", "-run", "{run}"},
		beside: []string{"-target", "{worker:0}", "-run", "{run}", "-produce", "1000"}},
	"pool":      {},
	"serving":   {},
	"wordcount": {},
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
	filled, err := g.fillAll(env, "")
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

// buildProgram builds a package of the repository, or a file.
func buildProgram(t testing.TB, name, of string) (path string) {
	t.Helper()
	path = filepath.Join(scratch, name)
	build := exec.Command("go", "build", "-o", path, of)
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// wareGroups returns all programs. Each has a cluster of its own, except for cases: those of a file share a cluster, and their containers
// keep them apart.
func wareGroups(t testing.TB) []group {
	t.Helper()
	var groups []group
	add := func(kind, name, jobs string, w ware) *group {
		w.name = name
		groups = append(groups, group{kind: kind, name: name, number: len(groups), jobs: jobs, wares: []ware{w}})
		return &groups[len(groups)-1]
	}
	known := func(name string, is bool) bool {
		if !is && elsewhere[name] == "" {
			t.Errorf("TestRuns does not run %s, and elsewhere does not say why", name)
		}
		return is
	}
	for _, path := range glob(t, "../examples/*") {
		name := filepath.Base(path)
		switch e, is := exampleWares[name]; {
		case name == "recommender":
			add("example", "examples/"+name, "", ware{same: measuresAside, stages: func(t testing.TB, _ *ground) []stage {
				return []stage{{{command: []string{needPython(t), path + "/train.py", "--rows", "20000", "--steps", "200"}, env: packageEnv(t)}}}
			}})
		case !known("examples/"+name, is):
		case e.asks != nil:
			add("example", "examples/"+name, e.jobs, ware{stages: func(t testing.TB, _ *ground) []stage {
				return []stage{{{command: append([]string{binary(t)}, e.asks...)}}}
			}}).server = func(t testing.TB) string { return buildProgram(t, "example-"+name, "./examples/"+name) }
		default:
			add("example", "examples/"+name, e.jobs, ware{same: e.same, stages: func(t testing.TB, _ *ground) []stage {
				args := slices.Clone(e.args)
				if e.needs != "" {
					args = append(args, e.needs, needPython(t))
				}
				// Its files are found from the repository's root.
				run := []string{"env", "-C", "..", buildProgram(t, "example-"+name, "./examples/"+name)}
				all := stage{{command: slices.Concat(run, args)}}
				if e.beside != nil {
					all = append(all, part{command: slices.Concat(run, e.beside)})
				}
				return []stage{all}
			}})
		}
	}
	add("document", "README.md in Go", "", ware{stages: func(t testing.TB, g *ground) []stage {
		path := filepath.Join(g.dir, "main.go")
		if err := os.WriteFile(path, []byte(readmeProgram(t)), 0o600); err != nil {
			t.Fatal(err)
		}
		return []stage{{{command: []string{buildProgram(t, "readme", path)}}}}
	}})
	for _, path := range documentsWithPrograms(t) {
		add("document", strings.TrimPrefix(path, "../"), "data=1,ps=1,worker=2", ware{same: nothing, stages: func(t testing.TB, g *ground) []stage {
			return documentStages(t, g, path)
		}}).flags = []string{"--process-memory", "256MiB"} // as in troubleshooting.md
	}
	for _, path := range glob(t, "programs/*.py") {
		name := filepath.Base(path)
		if w, is := programWares[name]; known(path, is) {
			if name == "secured.py" {
				add("program", path, "ps=1,worker=1", w).secured = true
			} else {
				add("program", path, "ps=1,worker=2", w)
			}
		}
	}
	for _, path := range append(glob(t, "clients/*.py"), glob(t, "datasets/*.py")...) {
		if c, is := clientWares[path]; known(path, is) {
			add(strings.TrimSuffix(filepath.Dir(path), "s"), path, c.jobs, ware{same: c.same, stages: func(t testing.TB, _ *ground) []stage {
				return []stage{{{command: append([]string{needPython(t), path}, c.args...), env: packageEnv(t)}}}
			}})
		}
	}
	for _, path := range glob(t, "cases/*.py") {
		file := strings.TrimSuffix(filepath.Base(path), ".py")
		p := group{kind: "case", name: "cases/" + file, number: len(groups), jobs: "ps=1,worker=2"}
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
