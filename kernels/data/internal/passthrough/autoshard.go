package passthrough

import (
	"slices"
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	optionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/dataset_options_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/selection"
	"google.golang.org/protobuf/proto"
)

// AutoShardDataset rewrites the graph of a pipeline so that each of several workers processes a part of it
// (core/grappler/optimizers/data/auto_shard.cc): a part of the files, a part of the elements, or what the pipeline's shard hint selects.

// newAutoShard creates a dataset that is the rewritten form of its input.
func newAutoShard(s *dataset.Settings) dataset.Maker {
	policy, replicas := s.Int("auto_shard_policy"), int64(0)
	if s.Has("num_replicas") {
		replicas = s.Int("num_replicas")
	}
	return func(in *dataset.Inputs) dataset.Kind {
		workers, index := in.Positive(in.Int(1, "num_workers"), "num_workers"), in.Int(2, "index")
		if in.Err == nil && (index < 0 || index >= workers) {
			in.Failf("index must be between 0 and %d", workers-1)
		}
		if in.Err == nil && replicas < 0 {
			in.Failf("num_replicas should be >= 0")
		}
		d := in.Dataset(0)
		if in.Err != nil {
			return pass{d}
		}
		to := optionspb.AutoShardPolicy(policy)
		if own := MergedOptions(d, map[*dataset.Dataset]*optionspb.Options{}).GetDistributeOptions().GetAutoShardPolicy(); own != optionspb.AutoShardPolicy_AUTO {
			to = own
		}
		sharded, err := autoShard(in.Place, d, workers, index, replicas, to)
		if err != nil {
			in.Fail(err)
			return pass{d}
		}
		in.Keep(sharded)
		return pass{sharded}
	}
}

// MergedOptions returns the options of a pipeline; later ones override earlier ones. known holds those already computed, since a dataset
// may be the input of several others.
func MergedOptions(d *dataset.Dataset, known map[*dataset.Dataset]*optionspb.Options) *optionspb.Options {
	if o := known[d]; o != nil {
		return o
	}
	all := &optionspb.Options{}
	known[d] = all
	for _, in := range d.Inputs {
		proto.Merge(all, MergedOptions(in, known))
	}
	if o, ok := d.Kind.(options); ok {
		proto.Merge(all, o.own)
	}
	return all
}

// autoShard returns the part of a dataset for the worker at index, with a reference for the caller.
func autoShard(p dataset.Place, d *dataset.Dataset, workers, index, replicas int64, policy optionspb.AutoShardPolicy) (*dataset.Dataset, error) {
	if _, ok := optionspb.AutoShardPolicy_name[int32(policy)]; !ok {
		return nil, status.InvalidArgumentf("auto_shard_policy is invalid.")
	}
	if policy == optionspb.AutoShardPolicy_OFF || policy == optionspb.AutoShardPolicy_FILE && workers == 1 {
		d.Retain()
		return d, nil
	}
	r, err := newRewrite(d, workers, index)
	if err != nil {
		return nil, err
	}
	defer r.end()
	switch policy {
	case optionspb.AutoShardPolicy_FILE:
		err = r.byFile(r.sink)
	case optionspb.AutoShardPolicy_DATA:
		err = r.byData(replicas)
	case optionspb.AutoShardPolicy_HINT:
		r.byHint()
	default:
		if err = r.byFile(r.sink); status.CodeOf(err) == status.NotFound {
			err = r.byData(replicas)
		}
	}
	if err != nil {
		return nil, err
	}
	return r.dataset(p)
}

// rewrite is a pipeline's graph while it is changed.
type rewrite struct {
	def            *graphpb.GraphDef
	held           map[string]*tensor.Tensor // values of Placeholders
	functions      map[string]*functionpb.FunctionDef
	workers, index int64
	nodes          map[string]*nodepb.NodeDef
	sink           *nodepb.NodeDef // consumes the elements
	made           []*tensor.Tensor
}

func newRewrite(d *dataset.Dataset, workers, index int64) (*rewrite, error) {
	whole := dataset.ToTensor(d)
	d.Retain()
	r := &rewrite{workers: workers, index: index, nodes: map[string]*nodepb.NodeDef{}, functions: map[string]*functionpb.FunctionDef{}, made: []*tensor.Tensor{whole}}
	var name string
	var err error
	if r.def, name, r.held, err = dataset.GraphHolding(whole); err != nil {
		r.end()
		return nil, err
	}
	for _, f := range r.def.Library.Function {
		r.functions[f.GetSignature().GetName()] = f
	}
	for _, n := range r.def.Node {
		r.nodes[n.GetName()] = n
	}
	r.sink = &nodepb.NodeDef{Name: "Sink", Op: dataset.RetvalOp, Input: []string{name}, Attr: map[string]*attrpb.AttrValue{"T": dataset.TypeAttr(tensor.Variant), "index": dataset.IntAttr(0)}}
	r.append(r.sink)
	return r, nil
}

func (r *rewrite) end() { kernels.ReleaseTensors(r.made) }

func (r *rewrite) append(n *nodepb.NodeDef) {
	r.def.Node = append(r.def.Node, n)
	r.nodes[n.GetName()] = n
}

// dataset creates the dataset of the graph. Its functions come along, for a dataset that came as a graph has some that p lacks.
func (r *rewrite) dataset(p dataset.Place) (*dataset.Dataset, error) {
	return dataset.FromGraphHolding(p, r.def, r.held)
}

// constant adds a number and returns its node's name.
func (r *rewrite) constant(v int64) string {
	t := tensor.Scalar(tensor.Int64, v)
	r.made = append(r.made, t)
	n := &nodepb.NodeDef{Name: dataset.PlaceholderOp + "/added_" + strconv.Itoa(len(r.def.Node)), Op: dataset.PlaceholderOp, Attr: map[string]*attrpb.AttrValue{"dtype": dataset.TypeAttr(tensor.Int64)}}
	r.held[n.Name] = t
	r.append(n)
	return n.Name
}

// before returns the node of a node's first input.
func (r *rewrite) before(n *nodepb.NodeDef) *nodepb.NodeDef {
	if len(n.GetInput()) == 0 {
		return &nodepb.NodeDef{}
	}
	return r.nodes[n.GetInput()[0]]
}

// replace connects the consumers of one node's output to another node instead, except for that node itself.
func (r *rewrite) replace(from, to string) {
	for _, n := range r.def.Node {
		if n.GetName() == to {
			continue
		}
		for i, in := range n.GetInput() {
			if in == from {
				n.Input[i] = to
			}
		}
	}
}

// insert adds a node after another, whose output becomes its first input, and connects that output's consumers to the new node.
func (r *rewrite) insert(op string, after *nodepb.NodeDef, inputs []string, attrs map[string]*attrpb.AttrValue) {
	n := &nodepb.NodeDef{Name: op + "/added_" + strconv.Itoa(len(r.def.Node)), Op: op, Input: append([]string{after.GetName()}, inputs...), Attr: attrs}
	r.append(n)
	r.replace(after.GetName(), n.Name)
}

// The ops that the rewrite knows.
var (
	shardReaders = []string{"ArrayRecordDataset", "FixedLengthRecordDataset", "RecordIODataset", "SSTableDataset", "TextLineDataset", "TFRecordDataset"}
	shardPasses  = []string{
		dataset.RetvalOp, "AssertNextDataset", "BatchDataset", "CacheDataset", "ExperimentalMapAndBatchDataset", "ExperimentalParseExampleDataset",
		"ExperimentalRebatchDataset", "FilterDataset", "FinalizeDataset", "Identity", "MapAndBatchDataset", "MapDataset",
		"MaxIntraOpParallelismDataset", "ModelDataset", "OptimizeDataset", "OptionsDataset", "PaddedBatchDataset", "ParallelBatchDataset",
		"ParallelMapDataset", "ParseExampleDataset", "PrefetchDataset", "PrivateThreadPoolDataset", "ReduceDataset", "RebatchDataset",
		"RepeatDataset", "ShardDataset", "ShuffleAndRepeatDataset", "ShuffleDataset", "SkipDataset", "TakeDataset", "UnbatchDataset",
		"WindowDataset",
	}
	shardFunctions = []string{
		"ExperimentalParallelInterleaveDataset", "FlatMapDataset", "InterleaveDataset", "LegacyParallelInterleaveDataset", "ParallelInterleaveDataset",
	}
	unshardable = []string{"GeneratorDataset", "RangeDataset", "SparseTensorsSliceDataset", "TensorDataset", "TensorSliceDataset"}
)

func isOneOf(n *nodepb.NodeDef, list []string) bool {
	return slices.ContainsFunc(list, func(op string) bool { return dataset.MatchesAnyVersion(op, n.GetOp()) })
}

// byFile searches from the last dataset to the first for one that reads files, and shards the file names. It visits each dataset once,
// however often it is an input.
func (r *rewrite) byFile(n *nodepb.NodeDef) error {
	seen := map[*nodepb.NodeDef]bool{}
	for left := []*nodepb.NodeDef{n}; len(left) > 0; {
		n := left[len(left)-1]
		left = left[:len(left)-1]
		if seen[n] { // the input of others more than once
			continue
		}
		seen[n] = true
		next, err := r.byFileAt(n)
		if err != nil {
			return err
		}
		slices.Reverse(next)
		left = append(left, next...)
	}
	return nil
}

// byFileAt shards a node's input, or returns the nodes at which to continue.
func (r *rewrite) byFileAt(n *nodepb.NodeDef) (next []*nodepb.NodeDef, err error) {
	switch {
	case n.GetOp() == "AssertCardinalityDataset":
		r.replace(n.GetName(), n.GetInput()[0])
		return []*nodepb.NodeDef{r.before(n)}, nil
	case isOneOf(n, unshardable):
		return nil, status.Errorf(status.NotFound, "Found an unshardable source dataset: %s", n.GetOp())
	case isOneOf(n, []string{"ConcatenateDataset", "ZipDataset"}):
		for _, in := range n.GetInput() {
			next = append(next, r.nodes[in])
		}
		return next, nil
	}
	function, passes := isOneOf(n, shardFunctions), isOneOf(n, shardPasses)
	if function {
		if list := r.listOfDatasets(r.before(n)); list != nil {
			if takers := r.takers(list); len(takers) == 1 {
				return nil, r.shardBefore(takers[0])
			}
		}
	}
	if (function || passes) && r.functionReads(n.GetAttr()) || isOneOf(n, shardReaders) {
		return nil, r.shardBefore(n)
	}
	if !function && !passes {
		return nil, status.Errorf(status.NotFound, "Did not find a shardable source, walked to a node which is not a dataset: %s. Consider either turning off auto-sharding or switching the auto_shard_policy to DATA to shard this dataset. You can do this by creating a new `tf.data.Options()` object then setting `options.experimental_distribute.auto_shard_policy = AutoShardPolicy.DATA` before applying the options object to the dataset via `dataset.with_options(options)`.", n.GetOp())
	}
	return []*nodepb.NodeDef{r.before(n)}, nil
}

// listOfDatasets finds a flat map over a given list of datasets; nil if there is none.
func (r *rewrite) listOfDatasets(n *nodepb.NodeDef) *nodepb.NodeDef {
	for {
		if isOneOf(n, shardFunctions) {
			if in := r.before(n); (in.GetOp() == "TensorSliceDataset" || in.GetOp() == "TensorDataset") && r.holdsDatasets(in) {
				return n
			}
		}
		if !isOneOf(n, shardPasses) {
			return nil
		}
		n = r.before(n)
	}
}

// holdsDatasets reports whether a source's tensors are datasets.
func (r *rewrite) holdsDatasets(n *nodepb.NodeDef) bool {
	t := r.held[r.before(n).GetName()]
	return t != nil && t.DType() == tensor.Variant
}

// takers returns the nodes that consume a node's output.
func (r *rewrite) takers(of *nodepb.NodeDef) []*nodepb.NodeDef {
	var list []*nodepb.NodeDef
	for _, n := range r.def.Node {
		if slices.Contains(n.GetInput(), of.GetName()) {
			list = append(list, n)
		}
	}
	return list
}

// functionReads reports whether a node's function reads files, or one that a dataset in it calls.
func (r *rewrite) functionReads(attrs map[string]*attrpb.AttrValue) bool {
	seen := map[string]bool{}
	for left := []string{attrs["f"].GetFunc().GetName()}; len(left) > 0; {
		name := left[len(left)-1]
		left = left[:len(left)-1]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, n := range r.functions[name].GetNodeDef() {
			switch {
			case isOneOf(n, shardReaders) && len(n.GetInput()) > 0:
				return true
			case isOneOf(n, shardFunctions):
				left = append(left, n.GetAttr()["f"].GetFunc().GetName())
			}
		}
	}
	return false
}

// shardBefore shards a node's input. A preceding shuffle would give each worker another order, so it is moved behind the shard.
func (r *rewrite) shardBefore(n *nodepb.NodeDef) error {
	if err := r.addShard(n); err != nil {
		return err
	}
	for _, op := range []string{"ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3"} {
		var last *nodepb.NodeDef
		r.removeShuffles(n, op, &last)
		if last != nil {
			after := r.before(n)
			attrs := map[string]*attrpb.AttrValue{"output_types": after.GetAttr()["output_types"], "output_shapes": after.GetAttr()["output_shapes"]}
			if again := last.GetAttr()["reshuffle_each_iteration"]; again != nil {
				attrs["reshuffle_each_iteration"] = again
			}
			r.insert(op, after, last.GetInput()[1:], attrs)
			return nil
		}
	}
	return nil
}

// removeShuffles removes the shuffles before a node; last is set to the first one of them.
func (r *rewrite) removeShuffles(n *nodepb.NodeDef, op string, last **nodepb.NodeDef) {
	seen := map[*nodepb.NodeDef]bool{}
	for left := []*nodepb.NodeDef{n}; len(left) > 0; {
		n := left[len(left)-1]
		left = left[:len(left)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		for _, in := range slices.Backward(n.GetInput()) {
			left = append(left, r.nodes[in])
		}
		if n.GetOp() == op {
			*last = n
			r.replace(n.GetName(), n.GetInput()[0])
		}
	}
}

// addShard shards a node's input.
func (r *rewrite) addShard(n *nodepb.NodeDef) error {
	after := r.before(n)
	if !strings.Contains(after.GetOp(), "Dataset") {
		return status.Errorf(status.NotFound, "Unable to shard this input. You may need to wrap the inputs to your reader dataset in a TensorSliceDataset. Input node is %s", after.GetOp())
	}
	types, shapes := after.GetAttr()["output_types"], after.GetAttr()["output_shapes"]
	if types == nil {
		types = after.GetAttr()["Toutput_types"]
	}
	if types == nil {
		types = dataset.ListAttr(&attrpb.AttrValue_ListValue{Type: []typespb.DataType{tensor.String.Proto()}})
	}
	if shapes == nil {
		shapes = dataset.ListAttr(&attrpb.AttrValue_ListValue{Shape: []*shapepb.TensorShapeProto{{UnknownRank: true}}})
	}
	r.insert("ShardDataset", after, []string{r.constant(r.workers), r.constant(r.index)}, map[string]*attrpb.AttrValue{
		"output_types": types, "output_shapes": shapes, "require_non_empty": boolAttr(true),
	})
	return nil
}

func boolAttr(v bool) *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: v}} }

// byData shards the elements, before any stages that only prefetch them or set options.
func (r *rewrite) byData(replicas int64) error {
	n := r.sink
	for in := r.before(n); in.GetOp() == "PrefetchDataset" || in.GetOp() == "OptionsDataset" || in.GetOp() == "FinalizeDataset"; in = r.before(n) {
		n = in
	}
	if err := r.splitBatches(r.before(n), replicas); err != nil {
		return err
	}
	return r.addShard(n)
}

// splitBatches turns a RebatchDatasetV2 into the first version, whose batches fit together across the workers.
func (r *rewrite) splitBatches(n *nodepb.NodeDef, replicas int64) error {
	if n.GetOp() != "RebatchDatasetV2" {
		return nil
	}
	if replicas < 1 {
		return status.InvalidArgumentf("Cannot rewrite RebatchDatasetV2 to legacy RebatchDataset with invalid num_replicas argument. `num_replicas` is %d, but expected to be >= 1.", replicas)
	}
	shapes := n.GetAttr()["output_shapes"]
	if shapes == nil {
		return status.InvalidArgumentf("Cannot rewrite RebatchDatasetV2 with missing `output_shapes` attr.")
	}
	open := proto.CloneOf(shapes)
	for _, s := range open.GetList().GetShape() {
		if len(s.GetDim()) > 0 {
			s.Dim[0].Size = -1
		}
	}
	n.Op = "RebatchDataset"
	n.Input = []string{n.GetInput()[0], r.constant(replicas)}
	n.Attr = map[string]*attrpb.AttrValue{"output_types": n.GetAttr()["output_types"], "output_shapes": open, "use_fallback": boolAttr(true)}
	return nil
}

// byHint replaces the shards of ShardHint with those of the workers.
func (r *rewrite) byHint() {
	for _, n := range slices.Clone(r.def.Node) {
		if n.GetOp() != "ShardDataset" {
			continue
		}
		if t := r.held[n.GetInput()[1]]; t == nil || t.DType() != tensor.Int64 || t.Len() != 1 || tensor.Of[int64](t)[0] != selection.ShardHint {
			continue
		}
		n.Input = []string{n.GetInput()[0], r.constant(r.workers), r.constant(r.index)}
		attrs := map[string]*attrpb.AttrValue{"require_non_empty": boolAttr(true)}
		for name, v := range n.GetAttr() {
			if name != "require_non_empty" {
				attrs[name] = v
			}
		}
		n.Attr = attrs
	}
}
