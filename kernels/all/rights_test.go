package all_test

import (
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// scope returns the rights under a policy rule that denies some ops, devices and containers.
func scope(ops, devices, names []string) *rights.Session {
	list := func(texts []string) (p rights.Patterns) {
		for _, text := range texts {
			p.Deny = append(p.Deny, rights.Pattern{Text: text, Line: 1})
		}
		return p
	}
	return rights.New(&rights.Scope{Who: "client:x", File: "policy.yaml", Line: 1, Ops: list(ops), Devices: list(devices), Containers: list(names)})
}

// TestDeniedOpsHaveNoKernel checks for each row of each op that no kernel is made for a session that may not use the op or the device.
func TestDeniedOpsHaveNoKernel(t *testing.T) {
	for _, op := range kernels.Ops() {
		if op == "_Arg" || op == "_Retval" { // the ends of every function
			continue
		}
		for _, device := range []string{"CPU", "GPU"} {
			for _, row := range kernels.Rows(op, device) {
				for what, r := range map[string]*rights.Session{"op " + op: scope([]string{op}, nil, nil), "device": scope(nil, []string{"*"}, nil)} {
					d := kt.NewDevice(t).For(r)
					k, err := row.New(&kernels.Construction{Node: &graph.Node{Name: "n", Op: op}, Device: d})
					if status.CodeOf(err) != status.PermissionDenied || !strings.Contains(err.Error(), "may not use the "+what) {
						t.Errorf("%s on %s with the %s denied: %T, %v", op, device, what, k, err)
					}
				}
			}
		}
	}
}

// spy records whether any file was requested; it contains none.
type spy struct {
	files.FS
	asked atomic.Bool
}

func (s *spy) ask() error {
	s.asked.Store(true)
	return status.Errorf(status.NotFound, "there is no file")
}

func (s *spy) Check(string) error                     { return s.ask() }
func (s *spy) Open(string) (files.File, error)        { return nil, s.ask() }
func (s *spy) Create(string) (files.File, error)      { return nil, s.ask() }
func (s *spy) Overwrite(string) (files.File, error)   { return nil, s.ask() }
func (s *spy) Append(string) (files.File, error)      { return nil, s.ask() }
func (s *spy) List(string) ([]string, error)          { return nil, s.ask() }
func (s *spy) Lock(string) (unlock func(), err error) { return nil, s.ask() }

// kept is a resource that belongs to another session.
type kept struct{ closed atomic.Bool }

func (k *kept) Close() { k.closed.Store(true) }

// resolvesNothing are the ops that take handles but resolve none, with the reason.
var resolvesNothing = map[string]string{
	"CreateSummaryDbWriter": "it is not supported",
	"StackClose":            ofStep, "StackPop": ofStep, "StackPush": ofStep,
	"TensorArrayClose": ofStep, "TensorArrayConcat": ofStep, "TensorArrayGather": ofStep, "TensorArrayPack": ofStep, "TensorArrayRead": ofStep,
	"TensorArrayScatter": ofStep, "TensorArraySize": ofStep, "TensorArraySplit": ofStep, "TensorArrayUnpack": ofStep, "TensorArrayWrite": ofStep,
}

const ofStep = "its handle names an object in the container of its own step, whatever container it names"

// notPaths are the ops with an attribute or input that is called like a path or a pattern and is none, with the reason.
var notPaths = map[string]string{
	"RegexFullMatch": regular, "RegexReplace": regular, "StaticRegexFullMatch": regular, "StaticRegexReplace": regular,
	"SetStatsAggregatorDataset": counters, "ExperimentalSetStatsAggregatorDataset": counters,
}

const (
	regular  = "a regular expression"
	counters = "the beginning of the names of counters"
)

// pathNames matches the names of the attributes and inputs that TensorFlow's ops have for files.
var pathNames = regexp.MustCompile("file|path|pattern|dir|prefix|url|vocab|memory_region")

// TestPathsAreOfFileOps checks that each op with an attribute or input for a path or a pattern is among the ops that use files: all others get no
// files, and their packages may not open any (internal/conventions).
func TestPathsAreOfFileOps(t *testing.T) {
	found := 0
	for _, name := range kernels.Ops() {
		def, err := graph.LookupOp(name)
		if err != nil {
			continue
		}
		var paths []string
		for _, a := range def.Attr {
			if (a.Type == "string" || a.Type == "list(string)") && pathNames.MatchString(a.Name) {
				paths = append(paths, a.Name)
			}
		}
		for _, a := range def.InputArg {
			if tensor.FromProto(a.Type) == tensor.String && pathNames.MatchString(a.Name) {
				paths = append(paths, a.Name)
			}
		}
		switch {
		case len(paths) == 0:
		case (notPaths[name] == "") != rights.UsesFiles(name):
			t.Errorf("%s has %q: it must be in rights.FileOps, or in notPaths with a reason", name, paths)
		default:
			found++
		}
	}
	if found < 40 {
		t.Errorf("only %d ops with paths were found", found)
	}
}

// TestEveryOpAsksForRights runs each op with arbitrary attributes and inputs, for a session that may not use the container vault or the ops
// that use files. Every container attribute, every handle and every reference to two strings names the vault. No op may find, create or
// delete anything there, or request a file.
func TestEveryOpAsksForRights(t *testing.T) {
	t.Parallel()
	rounds := 30
	if !extent.Check() || extent.RaceDetector {
		rounds = 5
	}
	path := filepath.Join(t.TempDir(), "file")
	for _, name := range kernels.Ops() {
		def, err := graph.LookupOp(name)
		if err != nil || quiet(name) && name != "PrintV2" {
			continue
		}
		names := slices.ContainsFunc(def.Attr, func(a *oppb.OpDef_AttrDef) bool { return a.Name == "container" })
		handles := slices.ContainsFunc(def.InputArg, func(a *oppb.OpDef_ArgDef) bool {
			return tensor.FromProto(a.Type) == tensor.Resource || a.IsRef && tensor.FromProto(a.Type) == tensor.String
		})
		refused, last := 0, error(nil)
		rng := rand.New(rand.NewPCG(11, uint64(len(name))))
		needed := (names || handles) && resolvesNothing[name] == ""
		for i := 0; i < rounds || needed && refused == 0 && i < 200*rounds; i++ {
			a := anything{t, rng, def}
			if err := a.asks(path, names, handles); status.CodeOf(err) == status.PermissionDenied && strings.Contains(err.Error(), "may not use the container vault") {
				refused++
			} else {
				last = err
			}
		}
		if needed && refused == 0 {
			t.Errorf("%s was never refused the container that it names, but failed with: %v", name, last)
		}
	}
}

// types returns the types for the op's type list, one for each shape.
func (a anything) types(attrs kt.Attrs) []tensor.DType {
	for _, d := range a.def.Attr {
		if list, ok := attrs[d.Name].([]tensor.DType); ok && d.Type == "list(type)" {
			return list
		}
	}
	return nil
}

// asks runs the op once and returns its error.
func (a anything) asks(path string, names, handles bool) error {
	attrs := a.attrs()
	row := kernels.Rows(a.def.Name, "CPU")[a.rng.IntN(len(kernels.Rows(a.def.Name, "CPU")))]
	for _, name := range slices.Sorted(maps.Keys(row.Types)) { // in order, which makes each run draw the same
		if _, one := attrs[name].(tensor.DType); one {
			attrs[name] = row.Types[name][a.rng.IntN(len(row.Types[name]))]
		}
	}
	for _, d := range a.def.Attr {
		switch {
		case d.Type == "type" && strings.Contains(d.Name, "shape"):
			attrs[d.Name] = tensor.Int32
		case d.Name == "container":
			attrs[d.Name] = "vault"
		case d.Name == "shared_name":
			attrs[d.Name] = "r0"
		case d.Type == "list(shape)":
			attrs[d.Name] = make([]tensor.Shape, len(a.types(attrs)))
		case d.Type == "string" && len(d.GetAllowedValues().GetList().GetS()) == 0 && a.rng.IntN(2) == 0:
			attrs[d.Name] = path
		}
	}
	all := kt.NewDevice(a.t)
	one := func() any { return kt.I64(nil, 1) }
	types := kt.Attrs{"output_types": []tensor.DType{tensor.Int64}, "output_shapes": []tensor.Shape{{}}}
	ranges := all.Run(a.t, kt.Op{Type: "RangeDataset", Attrs: types}, one(), one(), one())[0].Tensor
	defer ranges.Release()
	inputs := a.inputs(attrs)
	for i, in := range inputs {
		switch in := in.(type) {
		case *tensor.Tensor:
			switch in.DType() {
			case tensor.Resource:
				in.Handles()[0].Container = "vault"
				continue
			case tensor.Variant:
				inputs[i] = ranges.Retain()
			case tensor.String:
				inputs[i] = kt.Str(nil, path)
			case tensor.Int64:
				inputs[i] = []*tensor.Tensor{kt.I64(nil, 1), kt.I64(kt.S(1), 1), in.Retain()}[a.rng.IntN(3)]
			case tensor.Int32:
				inputs[i] = []*tensor.Tensor{kt.I32(nil, 1), kt.I32(kt.S(1), 1), in.Retain()}[a.rng.IntN(3)]
			default:
				continue
			}
			in.Release()
		case *containers.Variable:
			defer in.Close() // Assign may have left a dataset in it
			if in.DType() == tensor.String {
				in.Assign(kt.Str(kt.S(2), "vault", "r0"))
			}
		}
	}
	var others []*kept
	for _, kind := range []string{kernels.KindVariable, kernels.KindRefVariable, kernels.KindQueue, "Var", "Container"} {
		for _, name := range []string{"r0", "r1", "r2"} {
			r := &kept{}
			if _, err := all.Resources().LookupOrCreate("vault", kind, name, func() (containers.Resource, error) { return r, nil }); err != nil {
				a.t.Fatal(err)
			}
			others = append(others, r)
		}
	}
	before, err := all.Resources().List()
	if err != nil {
		a.t.Fatal(err)
	}
	asked := &spy{FS: files.None("spy")}
	r := scope([]string{"@files"}, nil, []string{"vault"})
	if rights.UsesFiles(a.def.Name) {
		r = scope(nil, nil, []string{"vault"}) // otherwise no kernel is made
	}
	d := all.For(r)
	step := kt.NewStep()
	step.Files = files.NewDoor(asked, scope([]string{"@files"}, nil, nil))
	err = contain.Run(slog.New(slog.DiscardHandler), a.def.Name, func() error { // panics are the subject of TestNoOpPanics
		return attempt(d, kt.Op{Type: a.def.Name, Attrs: attrs, Step: step, Functions: echo}, inputs)
	})
	if err == nil && (names || handles) && resolvesNothing[a.def.Name] == "" {
		a.t.Errorf("%s succeeds with attributes %v", a.def.Name, attrs)
	}
	if asked.asked.Load() {
		a.t.Errorf("%s asks for files", a.def.Name)
	}
	for _, o := range others[:12] {
		if o.closed.Load() {
			a.t.Errorf("%s deletes what is in a container that it may not use", a.def.Name)
		}
	}
	after, err2 := all.Resources().List()
	if err2 != nil {
		a.t.Fatal(err2)
	}
	inVault := func(list []containers.Entry) int {
		return len(slices.DeleteFunc(slices.Clone(list), func(e containers.Entry) bool { return e.Container != "vault" }))
	}
	if inVault(before) != inVault(after) {
		a.t.Errorf("%s changes a container that it may not use", a.def.Name)
	}
	return err
}

// otherStep is the container of a step that runs beside the one of kt.NewStep.
const otherStep = "__per_step_2"

// TestHandlesOfOtherStepsAreRefused runs each op that takes handles, or names a container, with those of another step's container. No op may find,
// make or delete anything there.
func TestHandlesOfOtherStepsAreRefused(t *testing.T) {
	t.Parallel()
	rounds := 20
	if !extent.Check() || extent.RaceDetector {
		rounds = 4
	}
	ran := 0
	for _, name := range kernels.Ops() {
		def, err := graph.LookupOp(name)
		if err != nil || quiet(name) {
			continue
		}
		a := anything{t, rand.New(rand.NewPCG(31, uint64(len(name)))), def}
		names := slices.ContainsFunc(def.Attr, func(a *oppb.OpDef_AttrDef) bool { return a.Name == "container" })
		handles := slices.ContainsFunc(def.InputArg, func(a *oppb.OpDef_ArgDef) bool {
			return tensor.FromProto(a.Type) == tensor.Resource || a.IsRef && tensor.FromProto(a.Type) == tensor.String
		})
		for range rounds {
			if names || handles {
				ran++
				a.reachesOtherStep()
			}
		}
	}
	if ran < 200*rounds {
		t.Errorf("only %d runs named another step's container", ran)
	}
}

// reachesOtherStep runs the op once.
func (a anything) reachesOtherStep() {
	attrs := a.attrs()
	for _, d := range a.def.Attr {
		switch d.Name {
		case "container":
			attrs[d.Name] = otherStep
		case "shared_name":
			attrs[d.Name] = "r0"
		}
	}
	inputs := a.inputs(attrs)
	for _, in := range inputs {
		switch in := in.(type) {
		case *tensor.Tensor:
			if in.DType() == tensor.Resource {
				in.Handles()[0].Container, in.Handles()[0].Name = otherStep, "r0"
			}
		case *containers.Variable:
			defer in.Close()
			if in.DType() == tensor.String {
				in.Assign(kt.Str(kt.S(2), otherStep, "r0"))
			}
		}
	}
	d := kt.NewDevice(a.t)
	var others []*kept
	for _, kind := range []string{kernels.KindVariable, kernels.KindRefVariable, kernels.KindTemporary, kernels.KindQueue, kernels.KindBarrier, kernels.KindAccumulator, "Stack", "TensorArray", "Container"} {
		k := &kept{}
		if _, err := d.Resources().LookupOrCreate(otherStep, kind, "r0", func() (containers.Resource, error) { return k, nil }); err != nil {
			a.t.Fatal(err)
		}
		others = append(others, k)
	}
	there := func() int {
		list, err := d.Resources().List()
		if err != nil {
			a.t.Fatal(err)
		}
		return len(slices.DeleteFunc(list, func(e containers.Entry) bool { return e.Container != otherStep }))
	}
	before := there()
	err := contain.Run(slog.New(slog.DiscardHandler), a.def.Name, func() error { // panics are the subject of TestNoOpPanics
		return attempt(d, kt.Op{Type: a.def.Name, Attrs: attrs, Step: kt.NewStep(), Functions: echo}, inputs)
	})
	if err == nil && resolvesNothing[a.def.Name] == "" && a.def.Name != "VarIsInitializedOp" { // which says no
		a.t.Errorf("%s succeeds with what is another step's, and attributes %v", a.def.Name, attrs)
	}
	if there() != before || slices.ContainsFunc(others, func(k *kept) bool { return k.closed.Load() }) {
		a.t.Errorf("%s changes the container of another step", a.def.Name)
	}
}

// TestSessionsHaveTheirOwn makes, in two sessions, nodes of one name whose resources are private, and gives each what the other one's ops return: the
// handles of a session name nothing of another one.
func TestSessionsHaveTheirOwn(t *testing.T) {
	d := kt.NewDevice(t)
	private := 0
	for _, name := range kernels.Ops() {
		def, err := graph.LookupOp(name)
		if err != nil || quiet(name) || !slices.ContainsFunc(def.Attr, func(a *oppb.OpDef_AttrDef) bool { return a.Name == "shared_name" }) ||
			len(def.OutputArg) != 1 || tensor.FromProto(def.OutputArg[0].Type) != tensor.Resource {
			continue
		}
		found := map[string]string{} // the session, by its handle
		for _, session := range []string{"first", "second"} {
			a := anything{t, rand.New(rand.NewPCG(37, 37)), def}
			attrs := a.attrs()
			for _, at := range def.Attr {
				switch at.Type {
				case "string":
					delete(attrs, at.Name)
				case "list(shape)":
					attrs[at.Name] = make([]tensor.Shape, len(a.types(attrs)))
				}
			}
			k, err := d.Kernel(kt.Op{Type: name, Name: "node", Attrs: attrs, Session: session, Functions: echo})
			if err != nil {
				continue
			}
			out, err := k.Try()
			if err != nil {
				continue
			}
			h := out[0].Tensor.Handles()[0]
			if strings.Contains(h.Name, session) {
				private++
				if other := found[h.Name]; other != "" && other != session {
					t.Errorf("%s of session %s has the handle of session %s: %s", name, session, other, h.Name)
				}
			} else if strings.HasPrefix(h.Name, "_") && found[h.Name] != "" {
				t.Errorf("%s of both sessions has the handle %s", name, h.Name)
			}
			found[h.Name] = session
			out[0].Release()
		}
	}
	if private < 10 {
		t.Errorf("only %d handles were private to a session", private)
	}
	for _, op := range []string{"GetSessionTensor", "DeleteSessionTensor"} {
		out := d.Run(t, kt.Op{Type: "GetSessionHandle", Session: "first", Outputs: 1}, kt.F32(nil, 7))
		handle := out[0].Tensor
		for _, name := range []string{handle.Strings()[0], "_first_" + handle.Strings()[0], "../first/" + handle.Strings()[0]} {
			kt.Fails(t, d, status.InvalidArgument, "in the session store", kt.Op{Type: op, Attrs: kt.Attrs{"dtype": tensor.Float32}, Session: "second"}, kt.Str(nil, name))
		}
		handle.Release()
	}
}
