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
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// plan is what a session runs for one signature: the pruned graph, partitioned by task. It is immutable,
// except for the record of which workers have it.
type plan struct {
	id     uint64
	pruned *graph.Pruned
	local  *compiledPlan
	remote map[string]*planPart // by task
	others []string             // the keys of remote
	feeds  []feedSpec
	graphs []*graph.Graph // of every device, for RunOptions.output_partition_graphs
	used   atomic.Int64   // unix nanoseconds of the last use
	main   *eagerMain     // the parts of an eager context's function on other tasks; nil if it has none
	// dropped means that the session has forgotten the plan, so that no further step begins with it.
	dropped atomic.Bool
	// runs counts the runs, for sessions that build cost models every few runs.
	runs atomic.Int64
	// watched counts the runs that a debugger has watched.
	watched atomic.Int64
}

// planPart is a plan's part on another task.
type planPart struct {
	task string
	boot uint64
	plan *wire.Plan
	// sent means that the plan has been sent to the worker over the current link.
	mu   sync.Mutex // guards sent: steps that start on several goroutines send the plan once
	sent bool
}

// feedSpec is the required type and shape of a fed tensor.
type feedSpec struct {
	name  string
	dtype tensor.DType
	shape tensor.Shape // -1 for arbitrary sizes
	known bool
}

var planIDs atomic.Uint64

// buildPlan prunes, partitions and compiles. It reaches every task that has a part, since the
// plan is only valid for the present start of its process. watches are what a debugger watches, if anything.
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
	p := &plan{id: planIDs.Add(1), pruned: pruned, remote: map[string]*planPart{}, feeds: feedSpecs(g, pruned)}
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
	var needed []string
	for _, tp := range others {
		needed = append(needed, tp.Task)
	}
	if err := s.task.unseen(needed); err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards p.remote between the goroutines of this call, which end with it
	err = parallel(ctx, others, func(ctx context.Context, tp partition.TaskParts) error {
		sh, err := s.planPart(ctx, tp, parts, dumpTo)
		mu.Lock()
		defer mu.Unlock()
		p.remote[tp.Task] = sh
		return err
	})
	if err != nil {
		return nil, err
	}
	p.others = sortedKeys(p.remote)
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
	if err = p.local.hold(p.bytes(s.eager != nil)); err == nil {
		err = s.worker.dump(own, dumpTo)
	}
	if err != nil {
		p.local.release()
		return nil, err
	}
	p.local.compression = s.options.compression
	return p, nil
}

// bytes returns about what the plan takes at its master, beside what its own part takes. The nodes share their attributes with the session's graph,
// except those of an eager context.
func (p *plan) bytes(attrs bool) int64 {
	n := int64(len(p.pruned.Nodes)) * planNode
	for _, sh := range p.remote {
		for _, part := range sh.plan.Parts {
			n += int64(len(part.GraphDef))
		}
	}
	if attrs {
		for _, node := range p.pruned.Nodes {
			for _, a := range node.Attrs {
				n += int64(proto.Size(a))
			}
		}
	}
	if p.main != nil {
		for _, part := range p.main.parts {
			n += int64(proto.Size(part.function))
		}
	}
	return n
}

// planPart prepares another task's part. The other task writes the part's graphs to the debug URLs, if there are any.
func (s *Session) planPart(ctx context.Context, tp partition.TaskParts, parts *partition.Parts, dumpTo []string) (*planPart, error) {
	peer, err := s.task.Cluster.Peer(view.Await(ctx, "session "+s.name()), tp.Task)
	if err != nil {
		return nil, err
	}
	if err := s.reach(tp.Task); err != nil {
		return nil, err
	}
	sh := &planPart{task: tp.Task, boot: peer.Boot(), plan: &wire.Plan{Isolated: s.options.isolated, Literal: s.options.literal, Compression: uint32(s.options.compression), Rights: s.rights.proto(),
		Watched: dumpTo != nil, DumpTo: dumpTo, Opened: s.opened}}
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

// feedSpecs returns the required type and shape of each feed: a placeholder's shape binds the client.
func feedSpecs(g *graph.Graph, pruned *graph.Pruned) []feedSpec {
	specs := make([]feedSpec, len(pruned.Feeds))
	for i, arg := range pruned.Feeds {
		spec := feedSpec{name: pruned.Signature.Feeds[i], dtype: arg.OutTypes[0].Base()}
		if n := g.Lookup(nodeOf(spec.name)); n != nil && (n.Op == "Placeholder" || n.Op == "PlaceholderV2") {
			shape, known, err := n.Attrs.Shape("shape")
			// Before GraphDef version 24, a scalar's shape meant any shape.
			spec.shape, spec.known = shape, err == nil && known && (len(shape) > 0 || g.Producer >= 24)
		}
		specs[i] = spec
	}
	return specs
}

// nodeOf returns the node in a tensor's name.
func nodeOf(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == ':' {
			return name[:i]
		}
	}
	return name
}

// check rejects a fed tensor whose type or shape differs from the graph's.
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

// partitionGraphs returns the plan's graphs as messages.
func (p *plan) partitionGraphs(md *corepb.RunMetadata) {
	for _, g := range p.graphs {
		md.PartitionGraphs = append(md.PartitionGraphs, g.Def())
	}
}

// fetches collects a step's fetched tensors.
type fetches struct {
	mu      sync.Mutex // guards tensors and dead: kernels on several goroutines fetch, and a message for each tensor would cost more than a small step
	tensors []*tensor.Tensor
	dead    []bool
	changed func(index int) // called at every arrival, without the lock; nil for plain runs
}

var _ kernels.Fetches = (*fetches)(nil)

// expect makes room for n tensors.
func (f *fetches) expect(n int) {
	f.tensors = slices.Grow(f.tensors[:0], n)[:n]
	f.dead = slices.Grow(f.dead[:0], n)[:n]
}

// reset prepares f for another step, after its tensors have been taken.
func (f *fetches) reset() {
	clear(f.dead)
	f.tensors, f.dead = f.tensors[:0], f.dead[:0]
}

// Fetch stores a tensor, or records that it is dead.
func (f *fetches) Fetch(index int, t *tensor.Tensor, dead bool) {
	f.mu.Lock()
	if index < 0 || index >= len(f.tensors) || f.tensors[index] != nil {
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

// moveTo moves the collected tensors to dst, in the step's order. A tensor that is missing, because its branch was not taken, is an
// error that names it.
func (f *fetches) moveTo(names []string, o *order, dst []*tensor.Tensor) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, t := range f.tensors {
		if t == nil {
			f.releaseLocked()
			return status.Internalf("The tensor returned for %s was not valid: it was fetched, but its branch was not taken\n\t [[{{node %s}}]]",
				names[i], nodeOf(names[i]))
		}
	}
	for i, t := range f.tensors {
		dst[o.fetch(i)] = t
	}
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
