package actors

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/partition"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// plan is what a session runs for one signature: the pruned graph, cut by task. It is immutable
// but for what it knows of the workers that have it.
type plan struct {
	id     uint64
	pruned *graph.Pruned
	local  *taskPlan
	remote map[string]*taskPart // by task
	feeds  []feedSpec
	graphs []*graph.Graph // of every device, for RunOptions.output_partition_graphs
	used   atomic.Int64   // unix nanoseconds of the last use
	// dropped tells that the session has forgotten the plan: no step begins with it any more.
	dropped atomic.Bool
	// runs counts the runs of a session that asks what nodes cost now and then.
	runs atomic.Int64
	// watched counts the runs that a debugger has watched.
	watched atomic.Int64
	// admitted are the rules that the session's policy has let the plan pass under; nil for none.
	admitted atomic.Pointer[Rules]
}

// taskPart is a plan's part on another task.
type taskPart struct {
	task string
	boot uint64
	plan *wire.Plan
	// sent tells that the worker has been sent the plan over the link that it is reached by.
	mu   sync.Mutex
	sent bool
}

// feedSpec is what a fed tensor must be.
type feedSpec struct {
	name  string
	dtype tensor.DType
	shape tensor.Shape // -1 for sizes that may be anything
	known bool
}

var planIDs atomic.Uint64

// buildPlan prunes, cuts and compiles. Every task that has a part is reached for it, since the
// plan is for this start of its process. watches are what a debugger watches; nil for nothing.
func (s *Session) buildPlan(ctx context.Context, g *graph.Graph, sig graph.Signature, watches []byte) (*plan, error) {
	client := s.worker.devices[0].Name()
	var pruned *graph.Pruned
	err := s.worker.inTurn(ctx, len(g.Nodes), func(check func() error) (err error) {
		pruned, err = graph.PruneChecked(g, sig, client, check)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, n := range pruned.Nodes {
		if n.Assigned == "" {
			return nil, status.Internalf("The node %s was not placed", n.Name)
		}
	}
	p := &plan{id: planIDs.Add(1), pruned: pruned, remote: map[string]*taskPart{}, feeds: feedSpecs(g, pruned)}
	if err := s.admit(p); err != nil {
		return nil, err
	}
	var parts *partition.Parts
	err = s.worker.inTurn(ctx, len(pruned.Nodes), func(check func() error) (err error) {
		parts, err = partition.Split(pruned.Graph, partition.Options{Narrow: s.options.narrow, MemoryTypes: kernels.MemoryTypes, Supports: supports, Check: check})
		return err
	})
	if err != nil {
		return nil, err
	}
	dumpTo, err := s.watch(parts, watches)
	if err != nil {
		return nil, err
	}
	own := map[string]*graph.Graph{}
	var others []partition.TaskParts
	for _, tp := range parts.Tasks() {
		if tp.Task != s.task.name {
			others = append(others, tp)
			continue
		}
		for _, d := range tp.Devices {
			own[d] = parts.ByDevice[d]
		}
	}
	var mu sync.Mutex
	err = parallel(ctx, others, func(ctx context.Context, tp partition.TaskParts) error {
		sh, err := s.taskPart(ctx, tp, parts, dumpTo)
		mu.Lock()
		defer mu.Unlock()
		p.remote[tp.Task] = sh
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, d := range parts.Devices {
		p.graphs = append(p.graphs, parts.ByDevice[d])
	}
	p.used.Store(time.Now().UnixNano())
	err = s.worker.inTurn(ctx, len(pruned.Nodes), func(check func() error) (err error) {
		p.local, err = s.worker.compile(own, watches != nil, check)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.worker.dump(own, dumpTo); err != nil {
		p.local.release()
		return nil, err
	}
	p.local.compression = s.options.compression
	return p, nil
}

// taskPart prepares another task's part, whose graphs the task writes to debug URLs, if there are any.
func (s *Session) taskPart(ctx context.Context, tp partition.TaskParts, parts *partition.Parts, dumpTo []string) (*taskPart, error) {
	peer, err := s.task.Cluster.Peer(ctx, tp.Task)
	if err != nil {
		return nil, err
	}
	if err := s.reach(tp.Task); err != nil {
		return nil, err
	}
	sh := &taskPart{task: tp.Task, boot: peer.Boot(), plan: &wire.Plan{Isolated: s.options.isolated, Literal: s.options.literal, Compression: uint32(s.options.compression), Rights: s.rights.proto(),
		Watched: dumpTo != nil, DumpTo: dumpTo}}
	for _, d := range tp.Devices {
		part := parts.ByDevice[d]
		def := part.Def()
		def.Library = part.Library.For(part).Proto()
		b, err := proto.Marshal(def)
		if err != nil {
			return nil, status.Internalf("The part of %s cannot be sent: %v", d, err)
		}
		sh.plan.Parts = append(sh.plan.Parts, &wire.Part{Device: d, GraphDef: b})
	}
	return sh, nil
}

// feedSpecs reads what may be fed: a placeholder's shape binds the client.
func feedSpecs(g *graph.Graph, pruned *graph.Pruned) []feedSpec {
	specs := make([]feedSpec, len(pruned.Feeds))
	for i, arg := range pruned.Feeds {
		spec := feedSpec{name: pruned.Signature.Feeds[i], dtype: arg.OutTypes[0].Base()}
		if n := g.Lookup(nodeOf(spec.name)); n != nil && (n.Op == "Placeholder" || n.Op == "PlaceholderV2") {
			shape, known, err := n.Attrs.Shape("shape")
			// Before GraphDef version 24 a scalar's shape stood for any.
			spec.shape, spec.known = shape, err == nil && known && (len(shape) > 0 || g.Producer >= 24)
		}
		specs[i] = spec
	}
	return specs
}

// nodeOf is the node of a tensor's name.
func nodeOf(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == ':' {
			return name[:i]
		}
	}
	return name
}

// check refuses a fed tensor of another type or shape than the graph declares.
func (f *feedSpec) check(t *tensor.Tensor) error {
	if t == nil {
		return status.InvalidArgumentf("Nothing was fed for %s", f.name)
	}
	if t.DType() != f.dtype {
		return status.InvalidArgumentf("The tensor fed for %s has type %v, but %v was expected\n\t [[{{node %s}}]]",
			f.name, t.DType(), f.dtype, nodeOf(f.name))
	}
	if f.known && !t.Shape().Compatible(f.shape) {
		return status.InvalidArgumentf("The tensor fed for %s has shape %v, but %v was expected\n\t [[{{node %s}}]]",
			f.name, t.Shape(), f.shape, nodeOf(f.name))
	}
	return nil
}

// partitionGraphs is the plan's graphs as messages.
func (p *plan) partitionGraphs(md *corepb.RunMetadata) {
	for _, g := range p.graphs {
		md.PartitionGraphs = append(md.PartitionGraphs, g.Def())
	}
}

// fetches is where a step's fetched tensors are gathered.
type fetches struct {
	mu      sync.Mutex
	tensors []*tensor.Tensor
	dead    []bool
	changed func(index int) // told of every arrival, without the lock; nil for plain runs
}

var _ kernels.Fetches = (*fetches)(nil)

// expect makes room for n tensors.
func (f *fetches) expect(n int) {
	f.tensors = slices.Grow(f.tensors[:0], n)[:n]
	f.dead = slices.Grow(f.dead[:0], n)[:n]
}

// reset makes f ready for another step, after the tensors were taken.
func (f *fetches) reset() {
	clear(f.dead)
	f.tensors, f.dead = f.tensors[:0], f.dead[:0]
}

// Fetch takes a tensor, or the news that there is none.
func (f *fetches) Fetch(index int, t *tensor.Tensor, dead bool) {
	f.mu.Lock()
	if index >= len(f.tensors) || f.tensors[index] != nil {
		f.mu.Unlock()
		if t != nil {
			t.Release()
		}
		return
	}
	f.tensors[index], f.dead[index] = t, dead
	f.mu.Unlock()
	if f.changed != nil {
		f.changed(index)
	}
}

// take hands the gathered tensors over to dst. One that is missing, since its branch was not taken, is
// an error that names it.
func (f *fetches) take(names []string, dst []*tensor.Tensor) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, t := range f.tensors {
		if t == nil {
			f.releaseLocked()
			return status.Internalf("The tensor returned for %s was not valid: it was fetched, but its branch was not taken\n\t [[{{node %s}}]]",
				names[i], nodeOf(names[i]))
		}
	}
	copy(dst, f.tensors)
	clear(f.tensors)
	f.tensors = f.tensors[:0]
	return nil
}

func (f *fetches) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.releaseLocked()
}

func (f *fetches) releaseLocked() {
	for i, t := range f.tensors {
		if t != nil {
			t.Release()
			f.tensors[i] = nil
		}
	}
	f.tensors = nil
}
