package graph

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

var rewrite = flag.Bool("rewrite", false, "write what the passes give into the transcripts")

// TestTranscripts runs the commands of testdata/*.txt and compares their output. A transcript is a sequence of
//
//	command arguments
//	lines of input
//	----
//	lines of output
//	<empty line>
//
// where input and output have no empty lines. The commands of a file share one graph:
//
//	build, extend   replace the graph with one made of the input, unless there is an error
//	library         adds functions, in protobuf's text format, to what the next build or extend takes
//	contains        reports whether the input is in the graph
//	prune           feed=a,b fetch=c target=d join=from->to; shows the pruned graph
//	instantiate     a function and its attributes; shows its graph
//	show            shows the graph
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r := &transcript{t: t, graph: &Graph{Library: &Library{}}}
			var out strings.Builder
			for i, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
				if i > 0 {
					out.WriteString("\n")
				}
				input, want, _ := strings.Cut(block+"\n", "----\n")
				if strings.HasPrefix(block, "#") {
					out.WriteString(block + "\n")
					continue
				}
				got := strings.TrimRight(r.run(input), "\n") + "\n"
				out.WriteString(input + "----\n" + got)
				if got != want && !*rewrite {
					t.Errorf("%sgave\n%swant\n%s", input, got, want)
				}
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// transcript is the graph that commands operate on.
type transcript struct {
	t       *testing.T
	graph   *Graph
	library string
}

func (r *transcript) run(input string) string {
	command, lines, _ := strings.Cut(input, "\n")
	args := strings.Fields(command)
	out, err := r.command(args[0], args[1:], lines)
	if err != nil {
		return status.CodeOf(err).String() + ": " + strings.ReplaceAll(err.Error(), " "+hostname()+".", " HOST.")
	}
	return out
}

func (r *transcript) command(name string, args []string, input string) (string, error) {
	switch name {
	case "library":
		r.library += input
		return "ok", nil
	case "build", "extend":
		def := parseGraph(r.t, input)
		def.Library = parseLibrary(r.t, r.library)
		r.library = ""
		before := proto.CloneOf(def)
		base := show(r.graph)
		g, err := Build(def)
		if name == "extend" {
			g, err = r.graph.Extend(def)
		}
		if !proto.Equal(def, before) || show(r.graph) != base {
			r.t.Errorf("%s changed its input", name)
		}
		if err != nil {
			return "", err
		}
		r.graph = g
		return show(g), nil
	case "contains":
		if r.graph.Contains(parseGraph(r.t, input)) {
			return "yes", nil
		}
		return "no", nil
	case "show":
		return show(r.graph), nil
	case "prune":
		p, err := Prune(r.graph, parseSignature(args), "/job:client/replica:0/task:0/device:CPU:0")
		if err != nil {
			return "", err
		}
		return show(p.Graph), nil
	case "instantiate":
		var attrs Attrs
		if len(args) > 1 {
			attrs = parseAttrs(r.t, strings.Join(args[1:], " "))
		}
		f, err := r.graph.Library.Instantiate(args[0], attrs)
		if err != nil {
			return "", err
		}
		out := show(f.Graph)
		for _, n := range f.ControlRets {
			out += "runs " + n.Name + "\n"
		}
		return out, nil
	}
	r.t.Fatalf("no command is named %q", name)
	return "", nil
}

func parseSignature(args []string) (sig Signature) {
	for _, arg := range args {
		key, list, _ := strings.Cut(arg, "=")
		names := strings.Split(list, ",")
		switch key {
		case "feed":
			sig.Feeds = names
		case "fetch":
			sig.Fetches = names
		case "target":
			sig.Targets = names
		case "join":
			for _, n := range names {
				from, to, _ := strings.Cut(n, "->")
				sig.Connections = append(sig.Connections, Connection{from, to})
			}
		}
	}
	return sig
}
