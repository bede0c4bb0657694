package storage

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"google.golang.org/protobuf/proto"
)

// Fingerprints of datasets: equal ones have equal elements, regardless of the names of their nodes and functions and of shuffle seeds. As
// in TensorFlow, they identify a dataset's snapshot. The numbers differ from TensorFlow's.

type digest [sha256.Size]byte

// fingerprint returns a number for a dataset and for the strings in more. It includes the current contents of the variables and tables that
// the dataset captures.
func fingerprint(ctx *kernels.Context, d *dataset.Dataset, more ...string) (uint64, error) {
	f := &fingerprinter{ctx: ctx, datasets: map[*dataset.Dataset]digest{}}
	sum, err := f.dataset(d)
	if err != nil {
		return 0, err
	}
	h := sha256.New()
	h.Write(sum[:])
	for _, s := range more {
		fmt.Fprintf(h, "%q", s)
	}
	return binary.LittleEndian.Uint64(h.Sum(nil)), nil
}

type fingerprinter struct {
	ctx      *kernels.Context
	datasets map[*dataset.Dataset]digest
}

func (f *fingerprinter) dataset(d *dataset.Dataset) (digest, error) {
	if sum, ok := f.datasets[d]; ok {
		return sum, nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "dataset %q\n", d.Op)
	if d.Node != nil {
		functions := &functionPrinter{defs: map[string]*functionpb.FunctionDef{}, done: map[string]digest{}}
		if err := d.Definitions(functions.defs); err != nil {
			return digest{}, err
		}
		if err := functions.attrs(h, d.Node.Attrs); err != nil {
			return digest{}, err
		}
	}
	for i, t := range d.Origin.Inputs {
		if isSeed(d.Op, i) {
			continue
		}
		if err := f.input(h, t); err != nil {
			return digest{}, err
		}
	}
	if d.Node == nil { // part of another dataset, which has the inputs
		for _, in := range d.Inputs {
			sum, err := f.dataset(in)
			if err != nil {
				return digest{}, err
			}
			h.Write(sum[:])
		}
	}
	sum := digest(h.Sum(nil))
	f.datasets[d] = sum
	return sum, nil
}

func (f *fingerprinter) input(h io.Writer, t *tensor.Tensor) error {
	if t.DType() == tensor.Variant && t.Rank() == 0 {
		if d, ok := t.Variants()[0].(*dataset.Dataset); ok {
			sum, err := f.dataset(d)
			if err == nil {
				_, err = h.Write(sum[:])
			}
			return err
		}
	}
	if t.DType() == tensor.Resource {
		return f.resources(h, t)
	}
	p, err := t.Proto()
	if err != nil {
		return err
	}
	return hashMessage(h, p)
}

// resources writes the contents of the resources that handles name, as the nodes that create such resources. For a resource without
// contents, or without contents that this device can read, it writes the type: a fingerprint does not check whether the dataset can be
// used.
func (f *fingerprinter) resources(h io.Writer, t *tensor.Tensor) error {
	for _, r := range t.Handles() {
		fmt.Fprintf(h, "resource %q\n", r.Type)
		handle := tensor.FromHandle(r)
		nodes, err := dataset.ResourceNodes(f.ctx, handle)
		handle.Release()
		if err != nil {
			continue
		}
		for _, n := range nodes {
			if err := hashMessage(h, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func hashMessage(h io.Writer, m proto.Message) error {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "message %d\n", len(b))
	_, err = h.Write(b)
	return err
}

// isSeed reports whether input i of an op is a seed.
func isSeed(op string, i int) bool {
	switch op {
	case "ShuffleDataset", "ShuffleDatasetV3", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2":
		return i == 2 || i == 3
	}
	return false
}

// functionPrinter computes fingerprints of functions.
type functionPrinter struct {
	defs  map[string]*functionpb.FunctionDef
	done  map[string]digest
	depth int
}

// attrs writes the attributes that do not concern names.
func (p *functionPrinter) attrs(h io.Writer, attrs map[string]*attrpb.AttrValue) error {
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if strings.HasPrefix(name, "_") || name == "metadata" {
			continue
		}
		fmt.Fprintf(h, "attr %q\n", name)
		v := attrs[name]
		list := v.GetList().GetFunc()
		if f := v.GetFunc(); f != nil {
			list = []*attrpb.NameAttrList{f}
		}
		if len(list) == 0 {
			if err := hashMessage(h, v); err != nil {
				return err
			}
			continue
		}
		for _, f := range list {
			sum, err := p.function(f.GetName())
			if err != nil {
				return err
			}
			if _, err := h.Write(sum[:]); err != nil {
				return err
			}
			if err := p.attrs(h, f.GetAttr()); err != nil {
				return err
			}
		}
	}
	return nil
}

// function returns the fingerprint of a function: of its results, and of its nodes that have effects.
func (p *functionPrinter) function(name string) (digest, error) {
	if sum, ok := p.done[name]; ok {
		return sum, nil
	}
	if p.depth >= dataset.MaxNesting {
		return digest{}, status.Errorf(status.ResourceExhausted, "Function %s: functions call one another more than %d deep", name, dataset.MaxNesting)
	}
	p.depth++
	defer func() { p.depth-- }()
	p.done[name] = digest{} // placeholder for recursive calls
	def := p.defs[name]
	h := sha256.New()
	if def == nil {
		fmt.Fprintf(h, "op %q\n", name)
	} else {
		b := &bodyPrinter{functionPrinter: p, nodes: map[string]*nodepb.NodeDef{}, args: map[string]int{}, done: map[string]digest{}}
		for i, a := range def.GetSignature().GetInputArg() {
			b.args[a.GetName()] = i
			fmt.Fprintf(h, "arg %v\n", a.GetType())
		}
		for _, n := range def.GetNodeDef() {
			b.nodes[n.GetName()] = n
		}
		for _, out := range def.GetSignature().GetOutputArg() {
			if err := b.result(h, def.GetRet()[out.GetName()]); err != nil {
				return digest{}, err
			}
		}
		for _, out := range slices.Sorted(maps.Keys(def.GetControlRet())) {
			if err := b.result(h, "^"+def.GetControlRet()[out]); err != nil {
				return digest{}, err
			}
		}
	}
	p.done[name] = digest(h.Sum(nil))
	return p.done[name], nil
}

type bodyPrinter struct {
	*functionPrinter
	nodes map[string]*nodepb.NodeDef
	args  map[string]int
	done  map[string]digest
}

// result writes a result.
func (b *bodyPrinter) result(h io.Writer, input string) error {
	name, _, _ := strings.Cut(strings.TrimPrefix(input, "^"), ":")
	if _, isArg := b.args[name]; !isArg {
		if err := b.prepare(name); err != nil {
			return err
		}
	}
	return b.input(h, input)
}

// input writes an input of a node, whose digest is already computed.
func (b *bodyPrinter) input(h io.Writer, input string) error {
	name, out, _ := strings.Cut(strings.TrimPrefix(input, "^"), ":")
	if i, ok := b.args[name]; ok {
		fmt.Fprintf(h, "argument %d\n", i)
		return nil
	}
	sum := b.done[name]
	fmt.Fprintf(h, "output %q %t\n", out, strings.HasPrefix(input, "^"))
	_, err := h.Write(sum[:])
	return err
}

// prepare computes the digests of a node and of its transitive inputs, inputs first. The chain of inputs may be arbitrarily long.
func (b *bodyPrinter) prepare(name string) error {
	finished := map[string]bool{}
	for left := []string{name}; len(left) > 0; {
		name := left[len(left)-1]
		if _, met := b.done[name]; !met {
			b.done[name] = digest{} // placeholder for loops
			finished[name] = false
			for _, in := range slices.Backward(b.nodes[name].GetInput()) {
				from, _, _ := strings.Cut(strings.TrimPrefix(in, "^"), ":")
				if _, isArg := b.args[from]; !isArg {
					left = append(left, from)
				}
			}
			continue
		}
		left = left[:len(left)-1]
		if done, mine := finished[name]; done || !mine {
			continue
		}
		finished[name] = true
		sum, err := b.node(name)
		if err != nil {
			return err
		}
		b.done[name] = sum
	}
	return nil
}

// node returns the digest of a node whose inputs already have theirs.
func (b *bodyPrinter) node(name string) (digest, error) {
	n := b.nodes[name]
	h := sha256.New()
	fmt.Fprintf(h, "node %q\n", n.GetOp())
	if err := b.attrs(h, n.GetAttr()); err != nil {
		return digest{}, err
	}
	var control []string
	for _, in := range n.GetInput() {
		if strings.HasPrefix(in, "^") {
			control = append(control, in)
			continue
		}
		if err := b.input(h, in); err != nil {
			return digest{}, err
		}
	}
	// The order of control inputs does not matter.
	var sums []string
	for _, in := range control {
		one := sha256.New()
		if err := b.input(one, in); err != nil {
			return digest{}, err
		}
		sums = append(sums, string(one.Sum(nil)))
	}
	slices.Sort(sums)
	for _, s := range sums {
		if _, err := io.WriteString(h, s); err != nil {
			return digest{}, err
		}
	}
	return digest(h.Sum(nil)), nil
}

// fingerprintOf outputs the fingerprint of a dataset.
func fingerprintOf(ctx *kernels.Context, p dataset.Place) error {
	d, err := dataset.FromTensor(p, ctx.Input(0))
	if err != nil {
		return err
	}
	defer d.Release()
	v, err := fingerprint(ctx, d)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Uint64, v))
	}
	return err
}
