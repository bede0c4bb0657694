package data

import (
	"math"
	"strings"
	"sync"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/protofield"
	"google.golang.org/protobuf/encoding/protowire"
)

// This file decides how much work to spend on finding the number of a dataset's elements.

// query requests a cardinality that may take work. A nil query requests only what is known without work.
type query struct {
	// call runs functions, where they are needed.
	call *Call
	// final reports whether to treat the dataset as TensorFlow's optimizer leaves it: without maps by functions that return their
	// arguments.
	final bool

	// found caches results, since a dataset may be the input of several others.
	mu    sync.Mutex
	found map[*Dataset]int64
}

// of returns the cardinality of a dataset. It asks the dataset's kind once per query.
func (q *query) of(d *Dataset) int64 {
	q.mu.Lock()
	n, ok := q.found[d]
	q.mu.Unlock()
	if ok {
		return n
	}
	n = d.kind.cardinality(q)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.found == nil {
		q.found = map[*Dataset]int64{}
	}
	q.found[d] = n
	return n
}

// accessBy returns the query that decides whether an index is in range.
func accessBy(c *Call) *query {
	c.access.mu.Lock()
	defer c.access.mu.Unlock()
	if c.access.call == nil {
		c.access.call, c.access.final = c, true
	}
	return &c.access
}

// cardinalityLevel is the field of a serialized CardinalityOptions that has the level. Functions are called from level moderate on.
const (
	cardinalityLevel protowire.Number = 1
	moderate         uint64           = 2
)

// newCardinality returns the kernel that computes a dataset's cardinality, as far as it is known.
func newCardinality(c *kernels.Construction) (any, error) {
	s := settingsOf(c)
	var level uint64
	if c.Node.Attrs["cardinality_options"] != nil {
		for f, err := range protofield.All([]byte(s.Str("cardinality_options"))) {
			switch {
			case err != nil:
				s.Failf("Could not parse cardinality_options: %v", err)
			case f.Number == cardinalityLevel:
				level = f.Varint
			}
		}
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	if level < moderate {
		return withPlace(func(ctx *kernels.Context, p place) error {
			d, err := datasetIn(p, ctx.Input(0))
			if err == nil {
				ctx.SetOutput(0, int64Scalar(d.cardinality(nil)))
				d.Release()
			}
			return err
		})(c)
	}
	return waiting(func(ctx *kernels.Context) error {
		return withDataset(ctx, placeOf(ctx, c), func(c *Call, d *Dataset) error {
			n := d.cardinality(&query{call: c})
			// The result of a cancelled query says nothing about the dataset.
			if err := c.Err(); err != nil {
				return err
			}
			ctx.SetOutput(0, int64Scalar(n))
			return nil
		})
	}), nil
}

// total is a number of elements that takes work to find. It is computed once.
type total struct {
	mu    sync.Mutex
	found bool
	n     int64
}

// get returns the number, and calls count unless the number is known. The result of a cancelled call is not kept.
func (t *total) get(c *Call, count func(c *Call) (int64, error)) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found {
		return t.n
	}
	n, err := count(c)
	if err != nil {
		if c.Err() != nil {
			return unknown
		}
		c.log.Warn("the cardinality of a flat map is unknown, since its function failed", "error", err)
		n = unknown
	}
	t.n, t.found = n, true
	return n
}

// cardinality adds up the sizes of the datasets that the function makes of the input's elements, if the query may take that work. It stops
// when one of them is infinite or unknown. An infinite input is never counted.
func (k *flatMap) cardinality(q *query) int64 {
	if q == nil {
		return unknown
	}
	if k.input.cardinality(q) == infinite {
		return unknown
	}
	return k.size.get(q.call, k.count)
}

func (k *flatMap) count(c *Call) (sum int64, err error) {
	f, err := c.bind(k.f)
	if err != nil {
		return 0, err
	}
	it, err := k.input.open(c.Env)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	for {
		e, err := it.Next(c)
		if atEnd(err) {
			return sum, nil
		}
		if err != nil {
			return 0, err
		}
		d, err := f.dataset(c, e)
		if err != nil {
			return 0, err
		}
		n := d.cardinality(nil)
		d.Release()
		if n < 0 {
			return n, nil
		}
		if sum > math.MaxInt64-n {
			return 0, status.Errorf(status.OutOfRange, "the datasets have more than %d elements", int64(math.MaxInt64))
		}
		sum += n
	}
}

// returnsArguments reports whether the function returns its arguments unchanged and does nothing else, so that mapping it changes nothing.
func (f *Function) returnsArguments() bool {
	if len(f.captured) > 0 {
		return false
	}
	defs := map[string]*functionpb.FunctionDef{}
	if f.library.Defs(f.ref, defs) != nil {
		return false
	}
	for _, body := range defs {
		for _, n := range body.GetNodeDef() {
			if defs[n.GetOp()] != nil {
				continue
			}
			if op, err := graph.LookupOp(n.GetOp()); err != nil || op.GetIsStateful() {
				return false
			}
		}
	}
	body := defs[f.ref.Name]
	if body == nil {
		return false
	}
	before := map[string]string{}
	for _, n := range body.GetNodeDef() {
		if n.GetOp() == "Identity" && len(n.GetInput()) > 0 {
			before[n.GetName()] = n.GetInput()[0]
		}
	}
	args, results := body.GetSignature().GetInputArg(), body.GetSignature().GetOutputArg()
	if len(args) != len(results) {
		return false
	}
	for i, arg := range args {
		source := body.GetRet()[results[i].GetName()]
		// A valid body has no cycle of identities, but a client may send one.
		for range len(before) + 1 {
			name, _, _ := strings.Cut(source, ":")
			if before[name] == "" {
				break
			}
			source = before[name]
		}
		if source != arg.GetName() {
			return false
		}
	}
	return true
}
