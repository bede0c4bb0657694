package remote

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/internal/extent"
)

// Functions in functions, datasets in datasets and conditionals in loops, to the limits of each and beyond, with an op at the bottom that the
// client may not use. However deep it is, it must be refused; the server must not end, and must answer in time.

// calling are the ops that call functions.
var calling = opsThat(func(d *oppb.OpDef) bool {
	return slices.ContainsFunc(d.Attr, func(a *oppb.OpDef_AttrDef) bool { return a.Type == "func" || a.Type == "list(func)" })
})

// depths are how deep each of the wraps is nested, beyond the limits of calls and of open iterators. The graphs of datasets in graphs are in one
// another's constants, and double with each level.
var (
	depths   = []int{3, 50, 700}
	shallow  = map[string][]int{"DatasetFromGraph": {3, 9}}
	mixed    = 40
	stepTime = 300 * time.Millisecond
)

// bottom reads the number in a file.
func bottom(b *block, path string) []output {
	text := b.first("ReadFile", nil, b.strings(nil, path))
	return b.op("StringToNumber", values{"out_type": int64Type}, text)
}

// wrapped wraps the bottom in functions.
func (b *block) wrapped(path string, depth int, next func(level int) way[func(b *block, inner func(b *block) []output) []output]) []output {
	if depth == 0 {
		return bottom(b, path)
	}
	return next(depth).draw(b, func(b *block) []output { return b.wrapped(path, depth-1, next) })
}

// TestNestedDeniedOps has alice nest the op that reads a file in each way, and in mixtures of all.
func TestNestedDeniedOps(t *testing.T) {
	t.Chdir(t.TempDir())                                 // where ops with relative names write
	defer debug.SetMaxStack(debug.SetMaxStack(64 << 20)) // the client's own recursion is here, too
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, strconv.AppendInt(nil, kept, 10))
	g := guardTasks(t, 1, Config{CPUs: 2, StepMemory: 64 << 20, SessionMemory: 256 << 20}, `rules:
  - {who: "client:bob", may: all, files: all}
  - {who: "client:alice", may: [open, declare], files: all, ops: {deny: [ReadFile]}}
`, "alice", "bob")
	n := nesting{g, newJudge(t, g.nodes), secret}
	n.judge.begin(limits{rule: "the denial of ReadFile", op: named("ReadFile"), container: named(), device: func(string) bool { return false }})
	for _, w := range wraps {
		all := depths
		if shallow[w.name] != nil {
			all = shallow[w.name]
		}
		if !extent.Check() {
			all = all[len(all)-1:]
		}
		for _, depth := range all {
			n.try(fmt.Sprintf("%s, %d deep", w.name, depth), func(b *block) []output {
				return b.wrapped(secret, depth, func(int) way[func(b *block, inner func(b *block) []output) []output] { return w })
			})
		}
	}
	rounds := 4
	if extent.Check() {
		rounds = 60
	}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		n.try(fmt.Sprintf("mixture %d", seed), func(b *block) []output {
			var all []string
			out := b.wrapped(secret, 2+r.IntN(mixed), func(level int) way[func(b *block, inner func(b *block) []output) []output] {
				w := pick(r, wraps...)
				for level > 9 && shallow[w.name] != nil {
					w = pick(r, wraps...)
				}
				all = append(all, w.name)
				return w
			})
			b.say(strings.Join(all, " in "))
			return out
		})
	}
	for _, def := range calling {
		n.try(def.Name+" of functions that call one another twice", func(b *block) []output { return b.twice(def, secret, 45) })
	}
	made, ran := n.judge.counts()
	if made == 0 || ran == 0 {
		t.Errorf("the judge has seen %d of alice's kernels made, and %d run", made, ran)
	}
	// bob may: the bottom is reached.
	if got, err := n.ask("bob", func(b *block) []output {
		return b.wrapped(secret, 3, func(level int) way[func(b *block, inner func(b *block) []output) []output] { return wraps[level] })
	}); err != nil || !n.shows(got) {
		t.Errorf("who may read the file gets %v, %v", got, err)
	}
}

// nesting is the server that is tried, and the judge of what it runs.
type nesting struct {
	*guarded
	judge  *judge
	secret string
}

// ask runs the graph that draw writes.
func (n nesting) ask(who string, draw func(b *block) []output) (*corepb.RunStepResponse, error) {
	n.t.Helper()
	b := &block{draft: &draft{Rand: rand.New(rand.NewPCG(1, 2)), prefix: alicesMark + "/", paths: []string{n.secret}, tokens: []string{"none"}, devices: []string{cpu0}, aim: secret{kind: "VarHandleOp", name: "v"}}}
	fetch := plain(draw(b))
	handle, err := n.open(who, b.def())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := n.master(who, "CloseSession", &corepb.CloseSessionRequest{SessionHandle: handle}, &corepb.CloseSessionResponse{}); err != nil {
			n.t.Error(err)
		}
	}()
	q := &corepb.RunStepRequest{SessionHandle: handle, Target: []string{b.nodes[len(b.nodes)-1].Name}, Options: &corepb.RunOptions{TimeoutInMs: stepTime.Milliseconds()}}
	for _, o := range fetch {
		q.Fetch = append(q.Fetch, fmt.Sprintf("%s:%d", o.node, o.flat))
	}
	var a corepb.RunStepResponse
	err = n.master(who, "RunStep", q, &a)
	return &a, err
}

// kept is the number in the file.
const kept = 81985529216486895

// shows reports whether an answer has the number.
func (n nesting) shows(a *corepb.RunStepResponse) bool {
	b, err := proto.Marshal(a)
	if err != nil {
		n.t.Fatal(err)
	}
	return numberIn(b, kept) >= 0
}

// try has alice run a graph that reads the file, and reports what she should not get.
func (n nesting) try(what string, draw func(b *block) []output) {
	n.t.Helper()
	began := time.Now()
	got, err := n.ask("alice", draw)
	if err == nil && n.shows(got) {
		n.t.Errorf("%s shows the file: %v", what, got)
	}
	if took := time.Since(began); took > extent.Slack(10*time.Second) || status.Code(err) == codes.Internal || status.Code(err) == codes.Unavailable {
		n.t.Errorf("%s took %v: %v", what, took, err)
	}
	for _, w := range n.judge.wrongs() {
		n.t.Errorf("%s: %s", what, w.text)
	}
}

// twice writes a node of an op whose functions are a chain: each calls the next one twice, by the same op where its arguments allow that, and the
// last one reads the file.
func (b *block) twice(def *oppb.OpDef, path string, depth int) []output {
	last, results := b.function(nil, func(b *block, _ []output) []output { return bottom(b, path) })
	for range depth {
		callee := last
		last, results = b.function(nil, func(b *block, _ []output) []output {
			call := func() output {
				return b.first(pick(b.Rand, "StatefulPartitionedCall", "PartitionedCall"), values{"Tin": types{}, "Tout": types{int64Type}, "f": callee})
			}
			return []output{b.first("AddV2", values{"T": int64Type}, call(), call())}
		})
	}
	given := values{"Tin": types{}, "Tout": results, "T": types{}, "Targuments": types{}, "output_types": results, "output_shapes": shapes{nil}, "Tcond": boolType, "N": 1}
	for _, a := range def.Attr {
		switch a.Type {
		case "func":
			given[a.Name] = last
		case "list(func)":
			given[a.Name] = []function{last, last}
		}
		if v, ok := given[a.Name].(types); ok && a.Type != "list(type)" && len(v) > 0 {
			given[a.Name] = v[0]
		}
		if _, ok := given[a.Name].(types); ok && a.HasMinimum && a.Minimum > 0 {
			given[a.Name] = types{int64Type}
		}
	}
	out := b.anything(def, given, nil)
	var got []output
	for _, o := range out {
		if o.dtype == variantType { // a dataset: take an element of it
			got = append(got, b.first("DatasetToSingleElement", values{"output_types": types{int64Type}, "output_shapes": shapes{nil}}, o))
		} else {
			got = append(got, o)
		}
	}
	return got
}
