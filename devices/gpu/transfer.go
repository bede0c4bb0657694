package gpu

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// piece is the size of the parts of a tensor that are copied to the card through pinned memory: while one is in flight, the next is copied
// to pinned memory.
const piece = 4 << 20

// Upload returns a tensor on the device with the elements of host. They are copied to pinned memory before it returns. If there is too
// little pinned memory, or they are already in it, host is retained until the card has them.
func (d *core) Upload(ctx *kernels.Context, host *tensor.Tensor) (*tensor.Tensor, error) {
	l := d.life.Load()
	if !host.OnHost() {
		return nil, status.Internalf("A tensor on a device cannot be uploaded to %s", d.name)
	}
	t, after, err := l.memory.make(host.DType(), host.Shape())
	if err != nil {
		return nil, err
	}
	data := host.Data()
	size := piece
	if l.pinned.holds(data) {
		size = len(data)
	}
	for at := 0; at < len(data); at += size {
		c := command{kind: uploadCommand, dst: t.Address() + uint64(at), host: data[at:min(at+size, len(data))], after: after, last: at+size >= len(data)}
		var staged []byte
		if size == piece {
			staged = l.pinned.get(len(c.host))
		}
		if staged != nil {
			copy(staged, c.host)
			c.host, c.then = staged, func(error) { l.pinned.put(staged) }
		} else {
			host.Retain()
			c.then = func(error) { host.Release() }
		}
		if err := d.submit(ctx, c, nil); err != nil {
			c.then(err)
			t.Release()
			return nil, err
		}
		after = 0 // the pieces are in one stream
	}
	return t, nil
}

// Land returns a tensor in pinned host memory, from which Upload needs no copy.
func (d *core) Land(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	return d.life.Load().pinned.make(dtype, shape)
}

// Download calls done with a copy of t in pinned host memory. It retains t until the copy is done, so t's memory is neither written nor
// reused before. A cancelled step does not wait.
func (d *core) Download(ctx *kernels.Context, t *tensor.Tensor, done func(*tensor.Tensor, error)) {
	l := d.life.Load()
	if t.OnHost() || !l.memory.Holds(t) {
		err := l.over()
		if err == nil {
			err = l.foreign()
		}
		contain.Go(nil, "A copy from a GPU", func() { done(nil, err) }, nil)
		return
	}
	host, err := l.pinned.make(t.DType(), t.Shape())
	if err != nil {
		contain.Go(nil, "A copy from a GPU", func() { done(nil, err) }, nil)
		return
	}
	t.Retain()
	var step *kernels.Step
	if ctx != nil {
		step = ctx.Step
	}
	e := watch(step, 0, func(err error) { done(nil, err) })
	then := func(err error) {
		t.Release()
		switch {
		case !e.first():
			host.Release()
		case err != nil:
			host.Release()
			resume(step, func() { done(nil, err) })
		default:
			resume(step, func() { done(host, nil) })
		}
	}
	if err := d.submit(ctx, command{kind: downloadCommand, src: t.Address(), host: host.Data(), then: then}, nil); err != nil {
		then(err)
	}
}
