package iterator

import (
	"io"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

const kindMultiDevice = "tensorflow::data::MultiDeviceIterator"

// dealer is a multi-device iterator: it deals the elements of a dataset to shards in turn. When a shard requests its next element, the
// elements before it are dealt to the other shards, each of which holds at most most of them.
type dealer struct {
	*Resource
	shards int

	mu          sync.Mutex // taken after the resource's
	incarnation int64
	pipeline    *pipeline // of the incarnation
	most        int64
	next        int // the shard that gets the next element
	kept        [][]dataset.Outcome
	ended       bool
	news        chan struct{} // closed when a shard has taken an element, or another incarnation begins
}

func newDealer(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	spec, devices := s.Spec(), s.List("devices").GetS()
	if s.Err() != nil {
		return nil, s.Err()
	}
	create := func(name string) *dealer {
		return &dealer{Resource: newResource(name, spec), shards: len(devices), news: make(chan struct{})}
	}
	if c.Node.Op == "MultiDeviceIterator" {
		return kernels.NewSource(c, kindMultiDevice, kernels.NamedBySession, func(name string) (*dealer, error) { return create(name), nil }, func(d *dealer) error { return spec.Check(d.spec) })
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		return dataset.OutputAnonymous(ctx, kindMultiDevice, create(ctx.Node.Name))
	}), nil
}

func (d *dealer) drop() {
	for _, list := range d.kept {
		for _, o := range list {
			o.Release()
		}
	}
	d.kept = make([][]dataset.Outcome, d.shards)
}

// Close deletes the iterator.
func (d *dealer) Close() {
	d.mu.Lock()
	d.drop()
	d.mu.Unlock()
	d.Resource.Close()
}

// begin starts iterating over a dataset, and returns the incarnation that users must pass.
func (d *dealer) begin(ctx *kernels.Context, device kernels.Device, of *dataset.Dataset, most int64) (int64, error) {
	var id int64
	// The elements of the new pipeline are only dealt in its incarnation, and what the one before does late changes nothing.
	err := d.setNoting(ctx, device, of, func(p *pipeline) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.drop()
		d.incarnation++
		id = d.incarnation
		d.pipeline, d.most, d.next, d.ended = p, max(most, 1), 0, false
		d.changed()
	})
	return id, err
}

// changed wakes the shards that wait. The caller holds mu.
func (d *dealer) changed() {
	close(d.news)
	d.news = make(chan struct{})
}

// deal returns the next element of a shard; io.EOF after its last.
func (d *dealer) deal(ctx *kernels.Context, shard int, incarnation int64) (e dataset.Element, err error) {
	for {
		var wait chan struct{}
		err := d.use(ctx, "GetNext()", "getting the next element", func(c *dataset.Call, p *pipeline) (err error) {
			e, wait, err = d.take(c, p, shard, incarnation)
			d.atEnd(err, p, ctx.Step.Origin)
			return err
		})
		if err != nil || wait == nil {
			return e, err
		}
		done := make(chan struct{})
		withdraw, ok := ctx.Step.Cancellation.OnCancel(func(error) { close(done) })
		if !ok {
			return nil, kernels.Cancelled(ctx.Ended())
		}
		select {
		case <-wait:
		case <-done:
			return nil, kernels.Cancelled(ctx.Ended())
		case <-d.Done():
			return nil, dataset.ErrClosed
		}
		withdraw()
	}
}

// take deals until the shard has an element. If another shard is full, wait is closed when that shard has taken one. The caller must have
// its turn.
func (d *dealer) take(c *dataset.Call, p *pipeline, shard int, incarnation int64) (e dataset.Element, wait chan struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if shard < 0 || shard >= d.shards {
		return nil, nil, status.InvalidArgumentf("shard_num must be in the range [0, %d), got %d", d.shards, shard)
	}
	for {
		if incarnation != d.incarnation || p != d.pipeline {
			return nil, nil, status.InvalidArgumentf("Invalid incarnation id. Provided: %d; Expected: %d", incarnation, d.incarnation)
		}
		if list := d.kept[shard]; len(list) > 0 {
			d.kept[shard] = list[1:]
			d.changed()
			return list[0].Element, nil, list[0].Err
		}
		if d.ended {
			return nil, nil, io.EOF
		}
		if d.next != shard && int64(len(d.kept[d.next])) >= d.most {
			return nil, d.news, nil
		}
		d.mu.Unlock()
		e, err := p.Next(c)
		d.mu.Lock()
		switch {
		case incarnation != d.incarnation:
			e.Release()
		case dataset.AtEnd(err):
			d.ended = true
		case err != nil && c.Err() != nil:
			return nil, nil, err
		default:
			d.kept[d.next] = append(d.kept[d.next], dataset.Outcome{Element: e, Err: err})
			d.next = (d.next + 1) % d.shards
		}
	}
}

func dealerAt(ctx *kernels.Context, i int) (*dealer, error) {
	return kernels.ResourceAt[*dealer](ctx, i, kindMultiDevice)
}

func multiDeviceInit(ctx *kernels.Context, p dataset.Place) error {
	of, err := dataset.FromTensor(p, ctx.Input(0))
	if err != nil {
		return err
	}
	defer of.Release()
	d, err := dealerAt(ctx, 1)
	if err != nil {
		return err
	}
	in := &dataset.Inputs{Context: ctx}
	most := in.Int(2, "max_buffer_size")
	if in.Err != nil {
		return in.Err
	}
	id, err := d.begin(ctx, p.Device, of, most)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Int64, id))
	}
	return err
}

func newMultiDeviceNext(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	spec := s.Spec()
	return dataset.Waiting(func(ctx *kernels.Context) error {
		d, err := dealerAt(ctx, 0)
		if err != nil {
			return err
		}
		in := &dataset.Inputs{Context: ctx}
		shard := dataset.Scalar(in, 1, "shard_num", tensor.Int32, func(t *tensor.Tensor) int32 { return tensor.Of[int32](t)[0] })
		id := in.Int(2, "incarnation_id")
		if in.Err != nil {
			return in.Err
		}
		e, err := d.deal(ctx, int(shard), id)
		if dataset.AtEnd(err) {
			return d.endOfSequence(ctx.Step)
		}
		if err != nil {
			return err
		}
		return spec.Output(ctx, e)
	}), s.Err()
}
