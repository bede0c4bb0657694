package metamorphic

import (
	"fmt"
	"slices"
	"strings"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
)

// Exported is a program for another client: its steps, one after the other, in one session that has the whole graph from the beginning.
type Exported struct {
	Graph *graphpb.GraphDef `json:"-"`
	Init  []string          `json:"init"`
	Steps []ExportedStep    `json:"steps"`
}

// ExportedStep is a step, and the values that it must fetch. Values are numbers and nested lists of them.
type ExportedStep struct {
	Feed   map[string]any `json:"feed"`
	Fetch  []string       `json:"fetch"`
	Target []string       `json:"target"`
	Want   []any          `json:"want"`
}

// Export returns the steps of a program's script that do not fail. The resources' names begin with the given prefix.
func Export(p *Program, names string, devices []string) *Exported {
	g := Draw(p, Form{Names: names, Devices: devices})
	last := p.Stmts[len(p.Stmts)-1].ID
	out := &Exported{Graph: g.Def(0, last), Init: append([]string{}, g.Inits(0, last)...), Steps: []ExportedStep{}}
	pl := newPlayer(p, Variant{}, g)
	pl.upto = last
	known := map[string]string{}
	var export func(actions []*Action)
	export = func(actions []*Action) {
		for _, a := range actions {
			switch a.Kind {
			case Parallel:
				export(a.Parts)
			case Run, Callable, Partial:
				once := *a
				once.Fetch, once.Target = unique(a.Fetch), unique(a.Target)
				// TensorFlow ignores a feed for the result of a call that it has lowered.
				once.Feed = slices.DeleteFunc(slices.Clone(a.Feed), func(id int) bool { return pl.top[id] == nil || pl.top[id].functional() })
				st := pl.step(&once, a.Seed)
				if st == nil {
					continue
				}
				// TensorFlow's master confuses two steps if their concatenated names are the same, whether these are fed or fetched. The
				// second of two such steps is left out.
				row, lengths := st.row()
				if known[row] == "" {
					known[row] = lengths
				}
				if known[row] == lengths {
					st.expect(pl.machine)
					out.Steps = append(out.Steps, st.export())
				}
			}
		}
	}
	export(p.Script)
	return out
}

// row returns the names of a step, and how many of them are fed, targets and fetched.
func (st *step) row() (names, lengths string) {
	var feeds []string
	for _, id := range st.feeds {
		feeds = append(feeds, tensorName(id))
	}
	slices.Sort(feeds)
	all := slices.Concat(feeds, slices.Sorted(slices.Values(st.others)), slices.Sorted(slices.Values(st.fetches)))
	return strings.Join(all, " "), fmt.Sprint(len(feeds), len(st.others), len(st.fetches))
}

func (st *step) export() ExportedStep {
	e := ExportedStep{Feed: map[string]any{}, Fetch: append([]string{}, st.fetches...), Target: append([]string{}, st.others...), Want: []any{}}
	for id, v := range st.fed {
		e.Feed[tensorName(id)] = v.nested()
	}
	for _, id := range st.fetch {
		e.Want = append(e.Want, st.want[id].nested())
	}
	return e
}

// nested returns the value as a number or rows of numbers.
func (v Value) nested() any {
	switch v.Type {
	case Int:
		return v.I
	case Scalar:
		return v.F[0]
	}
	var rows [][]float32
	for i := range Side {
		rows = append(rows, v.F[i*Side:(i+1)*Side])
	}
	return rows
}
