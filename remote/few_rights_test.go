package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/internal/view"
	pb "github.com/troupe-run/troupe/remote/internal/actorservice/actorspb"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// A client with few rights, alice, tries at random what it may not do: each round has a policy, and graphs and calls of alice, drawn from
// its seed. bob's secrets are in every resource of two tasks, and in files. No secret may show in what alice gets, what alice may not
// use must be unchanged after each round, and no kernel may be made or run for her that her policy denies (few_rights_judge_test.go).
//
// In check, each run draws other rounds. TROUPE_RIGHTS is how long TestFewRights runs; TROUPE_RIGHTS_SEED is a round to repeat, as a failure
// prints it. For an hour:
//
//	TROUPE_RIGHTS=1h go test ./remote -run 'TestFewRights$' -timeout 2h -v

// secret is a resource of bob's: a name in a container on a device, or of the cluster if it has no device, and a number that occurs nowhere
// else.
type secret struct {
	place
	kind, name string
	number     int64
}

// of returns a secret of another kind in the same place.
func (s secret) of(kind string) secret {
	s.kind, s.name = kind, kind
	if s.device == "" {
		s.name += "_home" // it may exist beside a pinned one
	}
	return s
}

type place struct{ container, device string }

// notDurable are the kinds that durable containers refuse.
var notDurable = []string{"IteratorV2", "MultiDeviceIterator", "IdentityReaderV2", "AddSparseToTensorsMap"}

// secretKinds put a number into a resource of each kind. They return outputs that show whether anybody has changed it.
var secretKinds = map[string]func(b *block, in values, n int64) (show []output){
	"VarHandleOp": func(b *block, in values, n int64) []output {
		h := b.first("VarHandleOp", with(in, values{"dtype": int64Type, "shape": dims(nil)}))
		b.op("AssignVariableOp", values{"dtype": int64Type}, h, b.ints(nil, n))
		return b.op("ReadVariableOp", values{"dtype": int64Type}, h)
	},
	"VariableV2": func(b *block, in values, n int64) []output {
		h := b.first("VariableV2", with(in, values{"dtype": int64Type, "shape": dims(nil)}))
		b.op("Assign", values{"T": int64Type}, h, b.ints(nil, n))
		return b.op("Identity", values{"T": int64Type}, h)
	},
	"FIFOQueueV2":          filledQueue("FIFOQueueV2", "V2"),
	"RandomShuffleQueueV2": filledQueue("RandomShuffleQueueV2", "V2"),
	"PaddingFIFOQueueV2":   filledQueue("PaddingFIFOQueueV2", "V2"),
	"PriorityQueueV2":      filledQueue("PriorityQueueV2", "V2"),
	"FIFOQueue":            filledQueue("FIFOQueue", ""),
	"RandomShuffleQueue":   filledQueue("RandomShuffleQueue", ""),
	"HashTableV2": func(b *block, in values, n int64) []output {
		h := b.first("HashTableV2", with(in, values{"key_dtype": stringType, "value_dtype": int64Type}))
		b.op("InitializeTableV2", values{"Tkey": stringType, "Tval": int64Type}, h, b.strings(dims{1}, "k"), b.ints(dims{1}, n))
		return b.op("LookupTableSizeV2", nil, h)
	},
	"MutableHashTableV2":          filledTable("MutableHashTableV2", "V2"),
	"MutableHashTableOfTensorsV2": filledTable("MutableHashTableOfTensorsV2", "V2"),
	"MutableHashTable":            filledTable("MutableHashTable", ""),
	"MutableDenseHashTableV2": func(b *block, in values, n int64) []output {
		v := with(in, values{"key_dtype": int64Type, "value_dtype": int64Type, "value_shape": dims(nil)})
		h := b.first("MutableDenseHashTableV2", v, b.ints(nil, -1), b.ints(nil, -2))
		types := values{"Tin": int64Type, "Tout": int64Type}
		b.op("LookupTableInsertV2", types, h, b.ints(dims{1}, 1), b.ints(dims{1}, n))
		return b.op("LookupTableFindV2", types, h, b.ints(dims{1}, 1), b.ints(nil, 0))
	},
	"Stage": func(b *block, in values, n int64) []output {
		v := with(in, values{"dtypes": types{int64Type}})
		b.op("Stage", v, b.ints(nil, n))
		return b.op("StageSize", v)
	},
	"MapStage":        filledMap("MapStage", "MapSize"),
	"OrderedMapStage": filledMap("OrderedMapStage", "OrderedMapSize"),
	"Barrier": func(b *block, in values, n int64) []output {
		h := b.first("Barrier", with(in, values{"component_types": types{int64Type}, "shapes": shapes{nil}}))
		b.op("BarrierInsertMany", values{"T": int64Type, "component_index": 0}, h, b.strings(dims{1}, "k"), b.ints(dims{1}, n))
		return b.op("BarrierReadySize", nil, h)
	},
	"ConditionalAccumulator":         filledAccumulator("ConditionalAccumulator", ""),
	"ResourceConditionalAccumulator": filledAccumulator("ResourceConditionalAccumulator", "Resource"),
	"SparseConditionalAccumulator": func(b *block, in values, n int64) []output {
		h := b.first("SparseConditionalAccumulator", with(in, values{"dtype": doubleType, "shape": dims{2}}))
		b.op("SparseAccumulatorApplyGradient", values{"dtype": doubleType, "has_known_shape": true}, h, b.ints(nil, 0), b.ints(dims{1}, 0),
			b.doubles(dims{1}, float64(n)), b.ints(dims{1}, 2))
		return b.op("AccumulatorNumAccumulated", nil, h)
	},
	"IteratorV2": func(b *block, in values, n int64) []output {
		h := b.first("IteratorV2", with(in, values{"output_types": types{int64Type}, "output_shapes": shapes{nil}}))
		b.op("MakeIterator", nil, b.numbers(n), h)
		return b.op("IteratorToStringHandle", nil, h)
	},
	"MultiDeviceIterator": func(b *block, in values, n int64) []output {
		v := with(in, values{"devices": texts{cpu0}, "output_types": types{int64Type}, "output_shapes": shapes{nil}})
		h := b.first("MultiDeviceIterator", v)
		b.op("MultiDeviceIteratorInit", nil, b.numbers(n), h, b.ints(nil, 1))
		return nil
	},
	"IdentityReaderV2": func(b *block, in values, n int64) []output {
		h := b.first("IdentityReaderV2", in)
		q := b.first("FIFOQueueV2", with(in, values{"component_types": types{stringType}, "shared_name": "work"}))
		b.op("QueueEnqueueV2", values{"Tcomponents": types{stringType}}, q, b.strings(nil, strconv.FormatInt(n, 10)))
		put := b.nodes[len(b.nodes)-1].Name
		b.op("ReaderReadV2", nil, h, q)
		read := b.nodes[len(b.nodes)-1]
		read.Input = append(read.Input, "^"+put)
		return b.op("ReaderNumRecordsProducedV2", nil, h)
	},
	"AddSparseToTensorsMap": func(b *block, in values, n int64) []output {
		b.op("AddSparseToTensorsMap", with(in, values{"T": int64Type}), b.ints(dims{1, 1}, 0), b.ints(dims{1}, n), b.ints(dims{1}, 1))
		return nil
	},
	"MutexV2": func(b *block, in values, _ int64) []output {
		b.op("MutexV2", in)
		return nil
	},
}

// likeOthers are the ops that name a container but make no secret, each with the op that covers it, or the reason.
var likeOthers = map[string]string{
	"Variable": "VariableV2", "PaddingFIFOQueue": "FIFOQueue", "PriorityQueue": "FIFOQueue", "HashTable": "MutableHashTable",
	"MutableDenseHashTable": "MutableHashTable", "MutableHashTableOfTensors": "MutableHashTable", "Iterator": "IteratorV2", "OneShotIterator": "IteratorV2",
	"AddManySparseToTensorsMap": "AddSparseToTensorsMap", "TakeManySparseFromTensorsMap": "takes what AddSparseToTensorsMap has put",
	"Batch": "keeps nothing between steps", "BatchFunction": "keeps nothing between steps", "Unbatch": "keeps nothing between steps", "UnbatchGrad": "keeps nothing between steps",
	"StatsAggregatorHandle": "has nothing that can be read", "StatsAggregatorHandleV2": "has nothing that can be read", "ExperimentalStatsAggregatorHandle": "has nothing that can be read",
	"ThreadPoolHandle": "has nothing that can be read", "ExperimentalThreadPoolHandle": "has nothing that can be read", "SummaryWriter": "writes files",
	"IdentityReader": "IdentityReaderV2", "FixedLengthRecordReader": "IdentityReaderV2", "FixedLengthRecordReaderV2": "IdentityReaderV2", "LMDBReader": "IdentityReaderV2",
	"TFRecordReader": "IdentityReaderV2", "TFRecordReaderV2": "IdentityReaderV2", "TextLineReader": "IdentityReaderV2", "TextLineReaderV2": "IdentityReaderV2",
	"WholeFileReader": "IdentityReaderV2", "WholeFileReaderV2": "IdentityReaderV2",
}

func with(v values, more values) values {
	all := maps.Clone(v)
	maps.Copy(all, more)
	return all
}

// numbers is a dataset that begins with n.
func (b *block) numbers(n int64) output {
	return b.first("RangeDataset", values{"output_types": types{int64Type}, "output_shapes": shapes{nil}}, b.ints(nil, n), b.ints(nil, n+9), b.ints(nil, 1))
}

func filledQueue(op, version string) func(b *block, in values, n int64) []output {
	return func(b *block, in values, n int64) []output {
		element := types{int64Type}
		v := values{"component_types": element, "shapes": shapes{nil}}
		if op == "PriorityQueueV2" { // its first component is the priority
			element = types{int64Type, int64Type}
		}
		h := b.first(op, with(in, v))
		b.op("QueueEnqueue"+version, values{"Tcomponents": element}, append([]output{h}, slices.Repeat([]output{b.ints(nil, n)}, len(element))...)...)
		return b.op("QueueSize"+version, nil, h)
	}
}

func filledTable(op, version string) func(b *block, in values, n int64) []output {
	return func(b *block, in values, n int64) []output {
		v := with(in, values{"key_dtype": stringType, "value_dtype": int64Type})
		var one, otherwise dims = dims{1}, nil
		if strings.Contains(op, "OfTensors") {
			v["value_shape"], one, otherwise = dims{1}, dims{1, 1}, dims{1}
		}
		h := b.first(op, v)
		types := values{"Tin": stringType, "Tout": int64Type}
		b.op("LookupTableInsert"+version, types, h, b.strings(dims{1}, "k"), b.ints(one, n))
		return b.op("LookupTableFind"+version, types, h, b.strings(dims{1}, "k"), b.ints(otherwise, 0))
	}
}

func filledMap(op, size string) func(b *block, in values, n int64) []output {
	return func(b *block, in values, n int64) []output {
		v := with(in, values{"dtypes": types{int64Type}, "fake_dtypes": types{int64Type}})
		b.op(op, v, b.ints(nil, 1), b.int32s(dims{1}, 0), b.ints(nil, n))
		return b.op(size, v)
	}
}

func filledAccumulator(op, family string) func(b *block, in values, n int64) []output {
	return func(b *block, in values, n int64) []output {
		h := b.first(op, with(in, values{"dtype": doubleType, "shape": dims(nil)}))
		b.op(family+"AccumulatorApplyGradient", values{"dtype": doubleType}, h, b.ints(nil, 0), b.doubles(nil, float64(n)))
		return b.op(family+"AccumulatorNumAccumulated", nil, h)
	}
}

// TestSecretsOfEveryKind checks that bob has a secret in each kind of resource that lives in a container.
func TestSecretsOfEveryKind(t *testing.T) {
	for _, def := range namingOps {
		uses := strings.HasPrefix(def.Name, "Stage") || strings.HasPrefix(def.Name, "Unstage") || strings.HasPrefix(def.Name, "Map") || strings.HasPrefix(def.Name, "OrderedMap")
		if secretKinds[def.Name] == nil && likeOthers[def.Name] == "" && !uses {
			t.Errorf("%s names a container, and no secret is made by it: add it to secretKinds", def.Name)
		}
	}
}

// vaults are two tasks with bob's secrets, and files: those below outside are nobody's, those below inside the clients'.
type vaults struct {
	*guarded
	secrets         []secret
	outside, inside string
	data            string // of the durable containers
	durable         []string
	judge           *judge
	heard           map[string]bool
	mark            string // in the names of bob's nodes and in files
	fill            *graphpb.GraphDef
	fills, shows    []string
	shown           map[string][]string // by the tensor that shows it: container, device, kind and name
	tokens          []string            // of bob's iterators
	session         string              // bob's
	waits           chan error          // the result of bob's waiting step
	eager           *eagerBob
	addresses       map[int32]string // of the tasks
	incarnation     uint64           // of the first device
}

var (
	vaultDevices    = []string{cpu0, "/job:w/replica:0/task:0/device:CPU:1", "/job:w/replica:0/task:1/device:CPU:0"}
	vaultContainers = []string{"vault", ""}
)

func newVaults(t *testing.T, r *rand.Rand) *vaults {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(t.TempDir()) // where alice's relative names lead, when she may use all files
	v := &vaults{outside: filepath.Join(dir, "outside"), inside: filepath.Join(dir, "inside"), mark: fmt.Sprintf("unseen%x", r.Uint64()), shown: map[string][]string{}, heard: map[string]bool{},
		durable: pick(r, nil, []string{"vault"}, []string{"mine*", "vault:snapshot=1s"})}
	for _, d := range []string{v.outside, v.inside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(d, "canary"), []byte(v.mark+filepath.Base(d)+"\n"))
	}
	if err := os.Symlink(v.outside, filepath.Join(v.inside, "link")); err != nil {
		t.Fatal(err)
	}
	c := Config{CPUs: 2, SecretFile: secretFile(t, "s"), Files: actors.FileAccess{Folders: []string{v.inside}}, StepMemory: 64 << 20, SessionMemory: 64 << 20, Durable: v.durable}
	if v.durable != nil {
		v.data = filepath.Join(dir, "data")
		c.Data = v.data
	}
	v.guarded = guardTasks(t, 2, c, v.text(`{who: "client:alice", may: open}`), "alice", "bob")
	v.judge = newJudge(t, v.nodes)
	b := &block{draft: &draft{Rand: r, prefix: v.mark + "/"}}
	for _, container := range vaultContainers {
		for _, device := range append(vaultDevices, "") {
			b.device = device
			for i, kind := range slices.Sorted(maps.Keys(secretKinds)) {
				s := secret{place: place{container, device}, number: r.Int64N(1<<47) + 1<<47}.of(kind)
				if kind == "VarHandleOp" { // with an additional one whose name nobody can guess
					v.secrets = append(v.secrets, v.keep(b, secret{s.place, kind, v.mark + "variable", s.number + 1}))
				}
				if device == "" && i%3 > 0 { // only some are the cluster's
					continue
				}
				if container == "vault" && v.durable != nil && slices.Contains(notDurable, kind) {
					continue
				}
				v.secrets = append(v.secrets, v.keep(b, s))
			}
		}
	}
	v.fill, v.waits = b.def(), make(chan error, 1)
	v.waits <- nil
	v.eager, v.addresses = &eagerBob{id: r.Uint64(), step: -1 - r.Int64N(1<<62)}, map[int32]string{}
	for range 4 {
		v.eager.numbers = append(v.eager.numbers, r.Int64N(1<<47)+1<<47)
	}
	for _, k := range v.node.Spec().Tasks() {
		v.addresses[int32(k.Index)] = k.Address
	}
	var err error
	if _, v.incarnation, err = v.as("bob").status(); err != nil {
		t.Fatal(err)
	}
	v.refill()
	t.Cleanup(func() { <-v.waits }) // ends with the test's context
	return v
}

// keep writes a secret.
func (v *vaults) keep(b *block, s secret) secret {
	had := len(b.nodes)
	show := secretKinds[s.kind](b, values{"container": s.container, "shared_name": s.name}, s.number)
	used := map[string]bool{}
	for _, n := range b.nodes[had:] {
		for _, in := range n.Input {
			used[in] = true
		}
	}
	for _, n := range b.nodes[had:] {
		if !used[n.Name] && (len(show) == 0 || n.Name != show[0].node) {
			v.fills = append(v.fills, n.Name)
		}
	}
	if len(show) > 0 {
		v.shown[show[0].node+":0"] = []string{s.container, s.device, s.kind, s.name}
		v.shows = append(v.shows, show[0].node+":0")
	}
	return s
}

// text is a policy with alice's rule.
func (v *vaults) text(alice string) string {
	return "rules:\n  - {who: \"client:bob\", may: all, files: all}\n  - " + alice + "\n"
}

// refill has bob make everything again.
func (v *vaults) refill() {
	v.t.Helper()
	if err := v.master("bob", "Reset", &corepb.ResetRequest{Container: append([]string{"mine"}, vaultContainers...)}, &corepb.ResetResponse{}); err != nil {
		v.t.Fatal(err)
	}
	<-v.waits // for the step that the reset ended
	v.wait()
	v.session = v.mustOpen("bob", v.fill)
	if err := v.run("bob", v.session, v.fills...); err != nil {
		v.t.Fatal(err)
	}
	got, err := v.fetch("bob", v.session, v.shows...)
	if err != nil {
		v.t.Fatal(err)
	}
	v.tokens = nil
	for i, name := range v.shows {
		if v.shown[name][2] == "IteratorV2" {
			token, err := tensor.FromTensorProto(got[i].Tensor, tensor.Host)
			if err != nil {
				v.t.Fatal(err)
			}
			v.tokens = append(v.tokens, token.Strings()[0])
			token.Release()
		}
	}
	v.openContext()
}

// wait has bob run one step that waits, and for which others wait that take from the queues "empty" of the default container, and one that
// fails.
func (v *vaults) wait() {
	v.t.Helper()
	b := &block{draft: &draft{prefix: v.mark + "step/"}}
	own := values{"component_types": types{int64Type}}
	never := b.first("QueueDequeueV2", own, b.first("FIFOQueueV2", own))
	var targets []string
	for _, b.device = range vaultDevices {
		q := b.first("FIFOQueueV2", values{"component_types": types{int64Type}, "shapes": shapes{nil}, "shared_name": "empty"})
		b.op("QueueEnqueueV2", values{"Tcomponents": types{int64Type}}, q, never)
		targets = append(targets, b.nodes[len(b.nodes)-1].Name)
	}
	b.op("Assert", values{"T": types{stringType}}, b.bool(false), b.strings(nil, v.mark+"step/message"))
	handle := v.mustOpen("bob", b.def())
	if err := v.run("bob", handle, b.nodes[len(b.nodes)-1].Name); err == nil {
		v.t.Fatal("bob's step does not fail")
	}
	go func() { v.waits <- v.run("bob", handle, targets...) }()
}

// snapshot returns what bob sees of the resources of some places, by place and name.
func (v *vaults) snapshot(of func(place) bool) map[string]string {
	v.t.Helper()
	all := map[string]string{}
	var shows []string
	for _, name := range v.shows {
		if s := v.shown[name]; of(place{s[0], s[1]}) {
			shows = append(shows, name)
		}
	}
	if got, err := v.fetch("bob", v.session, shows...); err != nil { // one no longer exists
		all["the values"] = err.Error()
	} else {
		for i, name := range shows {
			all["value of "+strings.Join(v.shown[name], " ")] = got[i].Tensor.String()
		}
	}
	var seen view.Cluster
	if err := v.call("bob", wire.OperatorSee, &view.Query{Sections: []string{"resources"}, Cluster: true, Detail: true, Limit: math.MaxInt32}, &seen); err != nil {
		v.t.Fatal(err)
	}
	for _, k := range seen.Tasks {
		for _, r := range k.Resources {
			if container := strings.TrimPrefix(r.Container, "w"); of(place{container, r.Device}) && slices.Contains(vaultContainers, container) && !strings.HasPrefix(r.Name, "_") { // names with an underscore go with their session
				q, s := r.Queue, r.Store
				all[fmt.Sprintf("%s %s %s %s", container, r.Device, r.Kind, r.Name)] = fmt.Sprint(r.Shared, r.Bytes, q.GetSize(), q.GetClosed(), q.GetEnqueued(), q.GetDequeued(), s.GetSize(), s.GetIncomplete(), s.GetClosed(), r.Reader)
			}
		}
	}
	return all
}

// waitingStep returns a step of bob's that runs; 0 if none does.
func (v *vaults) waitingStep() uint64 {
	v.t.Helper()
	var seen view.Cluster
	if err := v.call("bob", wire.OperatorSee, &view.Query{Sections: []string{"steps"}}, &seen); err != nil {
		v.t.Fatal(err)
	}
	for _, s := range seen.Tasks[0].Steps {
		return s.Id
	}
	return 0
}

// files returns the existing files with their contents.
func (v *vaults) files(dir string) map[string]string {
	v.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			all[path] = "no file"
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return all
}

// limits are what a policy allows alice, and its rule.
type limits struct {
	rule     string
	hides    func(place) bool // from alice
	files    bool             // alice may use those below inside
	resets   bool
	isolate  bool // nothing of bob's is alice's
	sessions int  // that alice may have; 0 for any number
	// The judge's view: ops, containers ("" for the default one) and devices that are denied.
	op, container, device func(name string) bool
}

// hidingContainers are the rules' lists that hide containers, hidingDevices those that hide devices.
var (
	hidingContainers = []struct {
		text   string
		both   bool                   // the default container, too
		denies func(name string) bool // the default container is ""
	}{
		{`{deny: [vault]}`, false, named("vault")}, {`{deny: ["?ault"]}`, false, named("vault")}, {`["", "mine*"]`, false, beside("mine", "")},
		{`["w", "mine*"]`, false, beside("mine", "")}, {`{deny: [vault, ""]}`, true, named("vault", "")},
		{`{deny: ["v*", w]}`, true, func(name string) bool { return name == "" || strings.HasPrefix(name, "v") }},
		{`["mine*"]`, true, beside("mine")}, {`{allow: "*", deny: [vault, w]}`, true, named("vault", "")},
	}
	hidingDevices = []struct{ text, hidden string }{{"", "none"}, {"", "none"}, {`, devices: {deny: ["*/task:1/*"]}`, "/task:1/"}, {`, devices: {deny: ["*CPU:1"]}`, "CPU:1"},
		{`, devices: ["/job:w/replica:0/task:0/*"]`, "/task:1/"}}
)

// named and beside deny the given names, and all others than those with the prefix and the given ones.
func named(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

func beside(prefix string, names ...string) func(string) bool {
	return func(name string) bool { return !strings.HasPrefix(name, prefix) && !slices.Contains(names, name) }
}

// someOps draws names of ops.
func someOps(r *rand.Rand, n int) (names []string) {
	for range n {
		names = append(names, pick(r, allOps...).Name)
	}
	return names
}

// quoted is a list in a policy.
func quoted(names []string) string {
	var list []string
	for _, n := range names {
		list = append(list, strconv.Quote(n))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// limit draws a policy.
func (v *vaults) limit(r *rand.Rand) limits {
	containers, devices := pick(r, hidingContainers...), pick(r, hidingDevices...)
	files := pick(r, "none", "shared", "all")
	l := limits{files: files != "none", isolate: containers.both, container: containers.denies, op: named(),
		device: func(name string) bool { return strings.Contains(name, devices.hidden) }}
	may := []string{"open"}
	for _, action := range []string{"list", "reset", "declare", "profile"} {
		if r.IntN(3) == 0 || action == "declare" && r.IntN(2) == 0 { // without it, there is no eager context
			may = append(may, action)
			l.resets = l.resets || action == "reset"
		}
	}
	ops := ""
	switch r.IntN(9) {
	case 0:
		ops, l.files, l.op = `, ops: {deny: ["@files"]}`, false, rights.UsesFiles
	case 1:
		some := someOps(r, 40)
		ops, l.op = ", ops: {deny: "+quoted(some)+"}", named(some...)
	case 2: // what many of alice's graphs need, and more
		some := append(someOps(r, 400), "Const", "Identity", "Placeholder", "VarHandleOp", "ReadVariableOp", "StatefulPartitionedCall", "PartitionedCall")
		ops, l.op = ", ops: "+quoted(some), func(op string) bool { return !slices.Contains(some, op) }
	case 3:
		some := []string{pick(r, "Tensor*", "*Dataset*", "*V2", "Queue*", "Read*", "*Table*", "?f", "Stateful*", "*Iterator*"), pick(r, allOps...).Name}
		ops, l.op = ", ops: {deny: "+quoted(some)+"}", func(op string) bool {
			matches, err := path.Match(some[0], op)
			if err != nil {
				v.t.Error(err)
			}
			return matches || op == some[1]
		}
	case 4:
		ops, l.op = `, ops: {allow: "*", deny: ["@stateful"]}`, func(op string) bool {
			def, err := graph.LookupOp(op)
			return err == nil && def.IsStateful
		}
	}
	bounds := ""
	if r.IntN(2) == 0 {
		l.sessions = 2 + r.IntN(12)
		bounds = fmt.Sprintf(", limits: {sessions: %d, steps: %d, steps_per_second: %d, session_bytes: %dKiB, step_bytes: %dKiB}",
			l.sessions, 1+r.IntN(3), 20+r.IntN(200), 64<<r.IntN(8), 64<<r.IntN(8))
	}
	l.rule = fmt.Sprintf(`{who: "client:alice", may: [%s], containers: %s%s%s, files: %s%s}`, strings.Join(may, ", "), containers.text, devices.text, ops, files, bounds)
	l.hides = func(p place) bool {
		return p.container == "vault" || containers.both || strings.Contains(p.device, devices.hidden)
	}
	return l
}

// bobsNames matches the names of bob's nodes.
var bobsNames = regexp.MustCompile(`unseen[0-9a-f]+/[0-9]+`)

// without removes the names that alice has seen while they were not hidden from her: the events of her own steps still have them.
func (v *vaults) without(got []byte, l limits) []byte {
	return bobsNames.ReplaceAllFunc(got, func(name []byte) []byte {
		if !l.isolate {
			v.heard[string(name)] = true
		}
		if v.heard[string(name)] {
			return nil
		}
		return name
	})
}

// leak finds a secret in what alice got.
func (v *vaults) leak(l limits, got []byte) string {
	for _, s := range v.secrets {
		if !l.hides(s.place) {
			continue
		}
		if at := numberIn(got, s.number); at >= 0 {
			return fmt.Sprintf("%+v in %s", s, around(got, at))
		}
	}
	for i, n := range v.eager.numbers {
		if at := numberIn(got, n); at >= 0 {
			return fmt.Sprintf("number %d of bob's context in %s", i, around(got, at))
		}
	}
	got = v.without(got, l)
	for mark, hidden := range map[string]bool{"/": l.isolate, "step/": true, "outside": true, "inside": !l.files, "variable": l.isolate} {
		if at := bytes.Index(got, []byte(v.mark+mark)); hidden && at >= 0 {
			return fmt.Sprintf("%s%s in %s", v.mark, mark, around(got, at))
		}
	}
	return ""
}

// numberIn returns where a number stands in what alice got, in any form; -1 if nowhere.
func numberIn(got []byte, number int64) int {
	n := uint64(number)
	for _, form := range [][]byte{binary.LittleEndian.AppendUint64(nil, n), binary.AppendUvarint(nil, n), strconv.AppendUint(nil, n, 10),
		binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(number)))} {
		if at := bytes.Index(got, form); at >= 0 {
			return at
		}
	}
	return -1
}

func around(text []byte, at int) string {
	return strconv.Quote(string(text[max(at-300, 0):min(at+200, len(text))]))
}

// intruder is alice in a round.
type intruder struct {
	*vaults
	*rand.Rand
	limits   limits
	sessions []string
	context  uint64 // her eager context; 0 if there is none
	version  int64  // of the graph of the first session
	waiting  uint64 // bob's step that waits
	found    []string
	leaks    func(said []string)
	wanted   string       // see draft
	answers  map[bool]int // by whether a call was answered
	calls    map[string]int
}

// ask calls as alice and looks for secrets in the answer.
func (a *intruder) ask(said []string, method string, q, r proto.Message) bool {
	if !strings.HasPrefix(method, "/") {
		method = "/tensorflow.MasterService/" + method
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), 20*time.Second)
	if strings.HasPrefix(method, "/tensorflow.eager.") || method == recvMethod {
		cancel()
		ctx, cancel = context.WithTimeout(a.t.Context(), 400*time.Millisecond) // ops of contexts may wait without a bound
	}
	defer cancel()
	err := a.callIn(ctx, "alice", method, q, r)
	got, err2 := proto.Marshal(r)
	if err2 != nil {
		a.t.Fatal(err2)
	}
	if err != nil {
		got = append(got, err.Error()...)
	}
	a.answers[err == nil]++
	a.calls[method]++
	if s := a.leak(a.limits, got); s != "" {
		a.leaks(said)
		a.found = append(a.found, fmt.Sprintf("%s shows %s\n%s\nasked: %.4000v", method, s, strings.Join(said, ", "), q))
	}
	return err == nil
}

// draft begins a graph and draws what it reaches for.
func (a *intruder) draft(number int) *draft {
	d := &draft{Rand: a.Rand, prefix: fmt.Sprintf("%s%d/", alicesMark, number), aim: pick(a.Rand, a.secrets...), wanted: a.wanted, tokens: a.tokens, devices: vaultDevices}
	if strings.HasPrefix(d.aim.name, a.mark) {
		d.aim = d.aim.of(d.aim.kind) // alice does not know its name
	}
	if a.IntN(3) == 0 {
		d.aim = d.aim.of(pick(a.Rand, "VarHandleOp", "FIFOQueueV2", "FIFOQueue"))
	}
	if a.IntN(10) == 0 { // bob's step waits on it, too
		d.aim = secret{place: place{"", pick(a.Rand, vaultDevices...)}, kind: "FIFOQueueV2", name: "empty"}
	}
	for _, dir := range []string{a.outside, a.inside, a.inside + "/../outside", a.inside + "/link", a.inside + "/new", filepath.Join(a.data, "w-0")} {
		d.paths = append(d.paths, dir+"/canary")
	}
	return d
}

// attempt draws a graph and runs it.
func (a *intruder) attempt(number int) {
	d := a.draft(number)
	b := &block{draft: d, device: pick(a.Rand, append(vaultDevices, d.aim.device, d.aim.device)...)}
	fetch := plain(b.attempt(2))
	def := b.def()
	var names []string
	for _, o := range fetch {
		names = append(names, fmt.Sprintf("%s:%d", o.node, o.flat))
	}
	target := []string{b.nodes[len(b.nodes)-1].Name}
	said := append(d.said, fmt.Sprintf("at %+v", d.aim))
	var session string
	if a.IntN(2) == 0 && len(a.sessions) > 0 {
		session = a.sessions[0]
		var r corepb.ExtendSessionResponse
		if !a.ask(said, "ExtendSession", &corepb.ExtendSessionRequest{SessionHandle: session, GraphDef: def, CurrentGraphVersion: a.version}, &r) {
			return
		}
		a.version = r.NewGraphVersion
	} else {
		var r corepb.CreateSessionResponse
		config := &corepb.ConfigProto{IsolateSessionState: a.IntN(4) == 0, AllowSoftPlacement: a.IntN(2) == 0}
		if a.IntN(8) == 0 {
			config.ClusterDef = &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: pick(a.Rand, "w", "other"), Tasks: map[int32]string{0: a.node.Address()}}}}
		}
		if !a.ask(said, "CreateSession", &corepb.CreateSessionRequest{GraphDef: def, Config: config}, &r) {
			return
		}
		session, a.version = r.SessionHandle, r.GraphVersion
		a.sessions = append([]string{session}, a.sessions...)
		if n := a.limits.sessions; n > 0 && len(a.sessions) > n && !a.limits.resets { // a reset ends sessions
			a.found = append(a.found, fmt.Sprintf("alice has %d sessions, and may have %d", len(a.sessions), n))
		}
	}
	options := &corepb.RunOptions{TimeoutInMs: 100}
	if a.IntN(6) == 0 {
		options.TraceLevel, options.OutputPartitionGraphs = corepb.RunOptions_FULL_TRACE, true
	}
	if a.IntN(10) == 0 && len(fetch) > 0 {
		options.DebugOptions = &corepb.DebugOptions{DebugTensorWatchOpts: []*corepb.DebugTensorWatch{
			{NodeName: fetch[0].node, DebugOps: []string{"DebugIdentity"}, DebugUrls: []string{"file://" + filepath.Dir(pick(a.Rand, d.paths...)) + "/debug"}}}}
	}
	feed := d.feeds
	var fed []string
	for _, f := range feed {
		fed = append(fed, f.Name)
	}
	switch a.IntN(4) {
	case 0:
		var r corepb.MakeCallableResponse
		q := &corepb.CallableOptions{Feed: fed, Fetch: names, Target: target, RunOptions: options}
		if a.ask(said, "MakeCallable", &corepb.MakeCallableRequest{SessionHandle: session, Options: q}, &r) {
			run := &corepb.RunCallableRequest{SessionHandle: session, Handle: r.Handle}
			for _, f := range feed {
				run.Feed = append(run.Feed, f.Tensor)
			}
			a.ask(said, "RunCallable", run, &corepb.RunCallableResponse{})
		}
	case 1:
		var r corepb.PartialRunSetupResponse
		if a.ask(said, "PartialRunSetup", &corepb.PartialRunSetupRequest{SessionHandle: session, Feed: fed, Fetch: names, Target: target}, &r) {
			a.ask(said, "RunStep", &corepb.RunStepRequest{SessionHandle: session, PartialRunHandle: r.PartialRunHandle, Feed: feed, Fetch: names, Options: options}, &corepb.RunStepResponse{})
		}
	default:
		a.ask(said, "RunStep", &corepb.RunStepRequest{SessionHandle: session, Feed: feed, Fetch: names, Target: target, Options: options, StoreErrorsInResponseBody: a.IntN(2) == 0}, &corepb.RunStepResponse{})
	}
}

// look makes the calls that need no graph.
func (a *intruder) look() {
	said := []string{"a call"}
	bobs := a.session
	var calls = []func(){
		func() {
			a.ask(said, "ListDevices", &corepb.ListDevicesRequest{SessionHandle: pick(a.Rand, "", bobs)}, &corepb.ListDevicesResponse{})
		},
		func() {
			a.ask(said, "Reset", &corepb.ResetRequest{Container: pick(a.Rand, []string{"vault"}, nil, []string{"mine", "vault"}, []string{"w"}, []string{"v"}), DeviceFilters: nil}, &corepb.ResetResponse{})
		},
		func() {
			a.ask(said, "RunStep", &corepb.RunStepRequest{SessionHandle: bobs, Fetch: pick(a.Rand, a.shows, a.shows[:1])}, &corepb.RunStepResponse{})
		},
		func() {
			a.ask(said, "ExtendSession", &corepb.ExtendSessionRequest{SessionHandle: bobs, GraphDef: graphOf()}, &corepb.ExtendSessionResponse{})
		},
		func() {
			a.ask(said, "CloseSession", &corepb.CloseSessionRequest{SessionHandle: bobs}, &corepb.CloseSessionResponse{})
		},
		func() {
			a.ask(said, wire.OperatorSee, &view.Query{Detail: a.IntN(2) == 0, Cluster: a.IntN(2) == 0}, &view.Cluster{})
		},
		func() { a.ask(said, wire.OperatorStatus, &wire.StatusRequest{}, &wire.ClusterStatus{}) },
		func() { a.ask(said, wire.OperatorListActors, &wire.ListActorsRequest{}, &wire.TaskActors{}) },
		func() {
			a.ask(said, wire.OperatorGraph, &view.GraphQuery{Session: view.SessionName(bobs)}, &view.Graph{})
		},
		func() {
			a.ask(said, wire.OperatorTrace, &view.TraceQuery{Duration: int64(time.Millisecond)}, &view.Trace{})
		},
	}
	for method, q := range map[string]proto.Message{pb.Ask: &pb.AskRequest{Actor: &pb.Actor{Name: "x"}}, pb.Send: &pb.SendRequest{Actor: &pb.Actor{Name: "x"}}, pb.Spawn: &pb.SpawnRequest{Kind: "x"},
		pb.End: &pb.EndRequest{Actor: &pb.Actor{Name: "x"}}, pb.Publish: &pb.PublishRequest{Topic: "x"},
		wire.OperatorDrain: &wire.DrainRequest{Task: "/job:w/replica:0/task:1"}, wire.OperatorCancelStep: &wire.CancelStepRequest{Step: a.waiting}} {
		calls = append(calls, func() {
			if a.ask(said, method, q, &wire.StatusRequest{}) {
				a.leaks(said)
				a.found = append(a.found, method+" is answered, although alice may not use actors, drain tasks or cancel others' steps")
			}
		})
	}
	pick(a.Rand, calls...)()
}

// round runs what alice tries under one policy, and returns what was found.
func (v *vaults) round(seed uint64, l limits, wanted string, leaks func(said []string)) (found []string, answers map[bool]int, calls map[string]int) {
	v.t.Helper()
	v.judge.begin(l)
	v.reload(v.text(l.rule))
	watched := func(p place) bool { // a reset empties a container on all devices
		return l.hides(p) && !(l.resets && p.container == "" && !l.isolate)
	}
	before, outside, inside := v.snapshot(watched), v.files(v.outside), v.files(v.inside)
	bobs, waiting := v.probe(), v.waitingStep()
	a := &intruder{vaults: v, Rand: rand.New(rand.NewPCG(seed, 2)), limits: l, wanted: wanted, leaks: leaks, answers: map[bool]int{}, calls: map[string]int{}, waiting: waiting}
	inContexts := strings.HasPrefix(wanted, "context ") || wanted == "change of bob's context"
	for i := range 40 {
		if i == 20 { // what a reload leaves unchanged also holds for open sessions
			v.reload(v.text(l.rule))
		}
		switch n := a.IntN(10); {
		case inContexts || wanted == "" && n < 4:
			a.inContext(i)
		case n < 6 && n%2 == 0:
			a.look()
		default:
			a.attempt(i)
		}
	}
	for _, s := range a.sessions {
		a.ask(nil, "CloseSession", &corepb.CloseSessionRequest{SessionHandle: s}, &corepb.CloseSessionResponse{})
	}
	if l.resets || !l.isolate { // bob's session may have ended, and the round's containers hold what alice put there
		v.session = v.mustOpen("bob", v.fill)
	}
	a.leaveContext()
	a.compare("bob's context", bobs, v.probe())
	a.compare("a resource of bob's", before, v.snapshot(watched))
	a.compare("a file", outside, v.files(v.outside))
	if !l.files {
		a.compare("a file of the clients", inside, v.files(v.inside))
	}
	for _, wrong := range v.judge.wrongs() {
		a.leaks([]string{wrong.what})
		a.found = append(a.found, wrong.text)
	}
	if !l.isolate || len(a.found) > 0 {
		v.refill()
	}
	return a.found, a.answers, a.calls
}

// compare reports what has changed.
func (a *intruder) compare(what string, before, after map[string]string) {
	for key := range maps.Keys(union(before, after)) {
		if before[key] != after[key] {
			a.leaks([]string{"change of " + what})
			a.found = append(a.found, fmt.Sprintf("%s was changed: %s was %q and is %q", what, key, before[key], after[key]))
		}
	}
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// roundsOfVaults is the number of rounds with the same vaults.
const roundsOfVaults = 40

// TestFewRights has alice try what the policies of many rounds forbid.
func TestFewRights(t *testing.T) {
	vault, rounds, until := uint64(1), 20, time.Time{}
	if extent.Check() {
		vault, rounds = rand.Uint64N(1<<40), 300
	}
	first := vault
	if text := os.Getenv("TROUPE_RIGHTS"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		vault, rounds, until = rand.Uint64N(1<<40), math.MaxInt, time.Now().Add(d)
		first = vault
	}
	if text := os.Getenv("TROUPE_RIGHTS_SEED"); text != "" {
		if _, err := fmt.Sscanf(text, "%d/%d", &vault, &first); err != nil {
			t.Fatalf("TROUPE_RIGHTS_SEED=%s, which is the vaults' seed and the round's, such as 17/23: %v", text, err)
		}
		rounds = 1
	}
	total, calls, done, seed := map[bool]int{}, map[string]int{}, 0, first
	for goesOn := func() bool { return done < rounds && (until.IsZero() || time.Now().Before(until)) }; goesOn(); vault = seed {
		before := done
		t.Run(fmt.Sprint(vault), func(t *testing.T) {
			v := newVaults(t, rand.New(rand.NewPCG(vault, 1)))
			t.Logf("TROUPE_RIGHTS_SEED=%d/%d is the first round; durable are %q", vault, seed, v.durable)
			for here := 0; here < roundsOfVaults && goesOn(); here++ {
				l := v.limit(rand.New(rand.NewPCG(seed, 3)))
				found, answers, made := v.round(seed, l, "", func([]string) {})
				for method, n := range made {
					calls[method] += n
				}
				for ok, n := range answers {
					total[ok] += n
				}
				for _, f := range found {
					t.Errorf("TROUPE_RIGHTS_SEED=%d/%d, with %s:\n%s", vault, seed, l.rule, f)
				}
				done, seed = done+1, seed+1
			}
			made, ran := v.judge.counts()
			t.Logf("%d kernels were made for alice, and %d ran", made, ran)
			if made == 0 || ran == 0 {
				t.Error("the judge has seen none of alice's kernels")
			}
		})
		if done == before {
			break // it has failed
		}
	}
	t.Logf("%d policies: %d calls were answered, %d refused: %v", done, total[true], total[false], calls)
}

// TestFewRightsAreWatched opens all doors and checks that every way to a secret is then found: what no round of TestFewRights finds does
// not exist, rather than going unseen.
func TestFewRightsAreWatched(t *testing.T) {
	v := newVaults(t, rand.New(rand.NewPCG(5, 1)))
	open := limits{rule: `{who: "client:alice", may: open, files: all}`, hides: func(place) bool { return true }, isolate: true, op: rights.UsesFiles, container: named("vault"), device: named("none")}
	missing := map[string]bool{"a file": true, "a naming op": true, "a reference": true, "change of a resource of bob's": true, "change of a file of the clients": true,
		madeDenied: true, ranDenied: true}
	for _, s := range sources {
		missing["source "+s.name] = true
	}
	for _, c := range carriers {
		missing["carrier "+c.name] = true
	}
	for _, w := range wraps {
		missing["wrap "+w.name] = true
	}
	delete(missing, "wrap SymbolicGradient") // it returns the function's gradient, not what the function reads
	if !extent.Check() {
		missing = map[string]bool{"a file": true, "change of a resource of bob's": true, "source its op": true, "wrap PartitionedCall": true, madeDenied: true, ranDenied: true}
	}
	for seed := uint64(1); seed <= 100; seed++ {
		wanted := slices.Sorted(maps.Keys(missing))
		if len(wanted) == 0 {
			t.Logf("all found in %d rounds", seed-1)
			return
		}
		v.round(seed, open, wanted[int(seed)%len(wanted)], func(said []string) {
			for _, what := range said {
				delete(missing, what)
			}
		})
	}
	t.Errorf("with all doors open, nothing was found by %v", slices.Sorted(maps.Keys(missing)))
}
