package partition

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata")

// TestTranscripts runs testdata/*.txt: sections that begin with a line of "split", "run", "tasks" or "frames" (text before the first is
// commentary), followed by a graph, "----" and the expected answer. "run" is "split" plus running the parts and comparing them with the
// whole.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, section := range sections(string(text)) {
				verb, _, _ := strings.Cut(section, "\n")
				question, _, asked := strings.Cut(section, "----\n")
				if !asked {
					got.WriteString(section)
					continue
				}
				got.WriteString(question + "----\n" + answer(t, verb, question[len(verb):]) + "\n")
			}
			out := strings.TrimRight(got.String(), "\n") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if out != string(text) {
				t.Errorf("%s: got\n%s\nwant\n%s", file, out, text)
			}
		})
	}
}

// sections splits a transcript before each line that is a verb.
func sections(text string) []string {
	out := []string{""}
	for _, line := range strings.SplitAfter(text, "\n") {
		switch strings.TrimSpace(line) {
		case "split", "run", "tasks", "frames":
			out = append(out, "")
		}
		out[len(out)-1] += line
	}
	return out
}

func answer(t *testing.T, verb, text string) string {
	g := parseGraph(t, text)
	failed := func(err error) string {
		return shorten(status.CodeOf(err).String() + ": " + err.Error() + "\n")
	}
	if verb == "frames" {
		info, err := Frames(g)
		if err != nil {
			return failed(err)
		}
		return formatFrames(g, info)
	}
	parts, err := Split(g, Options{MemoryTypes: memoryTypes})
	if err != nil {
		return failed(err)
	}
	checkParts(t, parts)
	if verb == "run" {
		compareRuns(t, rand.New(rand.NewPCG(1, 2)), g, parts)
	}
	if verb == "tasks" {
		return formatTasks(parts)
	}
	return formatParts(parts)
}

// checkParts checks what must be true of the parts of any graph.
func checkParts(t testing.TB, parts *Parts) {
	t.Helper()
	names := map[string]bool{}
	sent, received := map[string]int{}, map[string]int{}
	for _, device := range parts.Devices {
		g := parts.ByDevice[device]
		info, err := Frames(g)
		if err != nil {
			t.Errorf("the part of %s: %v", device, err)
			continue
		}
		for id, n := range g.Nodes {
			if names[n.Name] {
				t.Errorf("two nodes are named %s", n.Name)
			}
			names[n.Name] = true
			if n.Assigned != device {
				t.Errorf("%s is assigned to %s in the part of %s", n.Name, n.Assigned, device)
			}
			if len(n.InTypes) != len(n.Inputs) {
				t.Errorf("%s has %d inputs and %d types", n.Name, len(n.Inputs), len(n.InTypes))
			}
			if n.Attrs[UserNode] != nil && n.Def == nil {
				t.Errorf("%s has no declaration", n.Name)
			}
			for i, in := range n.Inputs {
				if from, to := memoriesOf(device, n, i); from != to {
					t.Errorf("input %d of %s, %s, comes in the memory %d of %s, and is wanted in %d", i, n.Name, in.Node.Name, from, device, to)
				}
				got := in.Node.OutTypes[in.Index]
				if (n.Attrs["DstT"] != nil || in.Node.Attrs["DstT"] != nil || info.Kinds[id] == Send) && got.Base() != n.InTypes[i].Base() {
					t.Errorf("input %d of %s is %v, and gets %v", i, n.Name, n.InTypes[i], got)
				}
			}
			switch info.Kinds[id] {
			case Send:
				sent[string(n.Attrs["tensor_name"].GetS())]++
			case Recv:
				received[string(n.Attrs["tensor_name"].GetS())]++
				if (info.Of[id] != 0 || n.Attrs["send_device"].String() == n.Attrs["recv_device"].String()) && len(n.Controls) == 0 {
					t.Errorf("%s has nothing that starts it in its loop", n.Name)
				}
			}
		}
	}
	for _, tr := range parts.Transfers {
		if sent[tr.Edge] != 1 || received[tr.Edge] != 1 {
			t.Errorf("%s has %d sends and %d receives", tr.Edge, sent[tr.Edge], received[tr.Edge])
		}
	}
	if len(sent) != len(parts.Transfers) || len(received) != len(parts.Transfers) {
		t.Errorf("%d transfers, %d sends, %d receives", len(parts.Transfers), len(sent), len(received))
	}
}
