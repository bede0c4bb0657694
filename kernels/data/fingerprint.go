package data

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
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// Fingerprints of datasets: equal ones have equal elements, whatever the names of their nodes and functions, and the seeds
// of what is shuffled. As in TensorFlow, they tell which snapshot is a dataset's; the numbers are others than TensorFlow's.

type digest [sha256.Size]byte

// fingerprint is a number for a dataset, and for what else the caller gives.
func fingerprint(d *Dataset, more ...string) (uint64, error) {
	f := &fingerprinter{datasets: map[*Dataset]digest{}}
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
	datasets map[*Dataset]digest
}

func (f *fingerprinter) dataset(d *Dataset) (digest, error) {
	if sum, ok := f.datasets[d]; ok {
		return sum, nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "dataset %q\n", d.Op)
	if d.node != nil {
		functions := &functionPrinter{defs: map[string]*functionpb.FunctionDef{}, done: map[string]digest{}}
		if k, ok := d.kind.(interface{ functions() []*Function }); ok {
			for _, fn := range k.functions() {
				if err := fn.library.Defs(fn.ref, functions.defs); err != nil {
					return digest{}, err
				}
			}
		}
		if err := functions.attrs(h, d.node.Attrs); err != nil {
			return digest{}, err
		}
	}
	for i, t := range d.origin.inputs {
		if isSeed(d.Op, i) {
			continue
		}
		if err := f.input(h, t); err != nil {
			return digest{}, err
		}
	}
	if d.node == nil { // a part of another one, which has the inputs
		for _, in := range d.inputs {
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
		if d, ok := t.Variants()[0].(*Dataset); ok {
			sum, err := f.dataset(d)
			if err == nil {
				_, err = h.Write(sum[:])
			}
			return err
		}
	}
	if t.DType() == tensor.Resource {
		for _, r := range t.Handles() {
			fmt.Fprintf(h, "resource %q\n", r.Type)
		}
		return nil
	}
	p, err := t.Proto()
	if err != nil {
		return err
	}
	return hashMessage(h, p)
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

// isSeed tells whether input i of an op is a seed.
func isSeed(op string, i int) bool {
	switch op {
	case "ShuffleDataset", "ShuffleDatasetV3", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2":
		return i == 2 || i == 3
	}
	return false
}

// functionPrinter computes fingerprints of functions.
type functionPrinter struct {
	defs map[string]*functionpb.FunctionDef
	done map[string]digest
}

// attrs writes the attributes that are not about names.
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

// function is the fingerprint of a function: those of what it returns, and of its nodes that have effects.
func (p *functionPrinter) function(name string) (digest, error) {
	if sum, ok := p.done[name]; ok {
		return sum, nil
	}
	p.done[name] = digest{} // what calls itself does so by its place
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
			if err := b.input(h, def.GetRet()[out.GetName()]); err != nil {
				return digest{}, err
			}
		}
		for _, out := range slices.Sorted(maps.Keys(def.GetControlRet())) {
			if err := b.input(h, "^"+def.GetControlRet()[out]); err != nil {
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

// input writes what an input of a node, or a result, is.
func (b *bodyPrinter) input(h io.Writer, input string) error {
	name, out, _ := strings.Cut(strings.TrimPrefix(input, "^"), ":")
	if i, ok := b.args[name]; ok {
		fmt.Fprintf(h, "argument %d\n", i)
		return nil
	}
	sum, err := b.node(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "output %q %t\n", out, strings.HasPrefix(input, "^"))
	_, err = h.Write(sum[:])
	return err
}

func (b *bodyPrinter) node(name string) (digest, error) {
	if sum, ok := b.done[name]; ok {
		return sum, nil
	}
	b.done[name] = digest{} // a loop, which has its place
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
	// The order of control inputs means nothing.
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
	b.done[name] = digest(h.Sum(nil))
	return b.done[name], nil
}

// fingerprintOf gives the fingerprint of a dataset.
func fingerprintOf(ctx *kernels.Context, p place) error {
	d, err := datasetIn(p, ctx.Input(0))
	if err != nil {
		return err
	}
	defer d.Release()
	v, err := fingerprint(d)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Uint64, v))
	}
	return err
}

// batchSize gives the rows of a dataset's elements as its batches say, -1 where that is not known.
func batchSize(ctx *kernels.Context, p place) error {
	d, err := datasetIn(p, ctx.Input(0))
	if err != nil {
		return err
	}
	defer d.Release()
	ctx.SetOutput(0, int64Scalar(batchSizeOf(d)))
	return nil
}

// keepsBatches are the ops whose elements have as many rows as those of their input.
var keepsBatches = []string{
	"AssertCardinalityDataset", "CacheDataset", "FilterDataset", "FinalizeDataset", "Identity", "ModelDataset", "OptimizeDataset",
	"OptionsDataset", "ParseExampleDataset", "PrefetchDataset", "RepeatDataset", "ShardDataset", "ShuffleAndRepeatDataset", "ShuffleDataset",
	"SkipDataset", "TakeDataset",
}

func batchSizeOf(d *Dataset) int64 {
	is := func(op string) bool { return matchesAnyVersion(op, d.Op) }
	number := func(i int) int64 {
		if i < 0 || i >= len(d.origin.inputs) || d.origin.inputs[i].DType() != tensor.Int64 || d.origin.inputs[i].Len() != 1 {
			return -1
		}
		return tensor.Of[int64](d.origin.inputs[i])[0]
	}
	switch {
	case is("BatchDataset") || is("PaddedBatchDataset"):
		return number(1)
	case is("MapAndBatchDataset") || is("ExperimentalMapAndBatchDataset"):
		return number(len(d.origin.inputs) - 3)
	case is("ConcatenateDataset") || is("ZipDataset"):
		size := int64(-1)
		for i, in := range d.inputs {
			n := batchSizeOf(in)
			if i > 0 && n != size {
				return -1
			}
			size = n
		}
		return size
	case slices.ContainsFunc(keepsBatches, is):
		if in := d.previous(); in != nil {
			return batchSizeOf(in)
		}
	}
	return -1
}
