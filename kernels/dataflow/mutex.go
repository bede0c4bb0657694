package dataflow

import (
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/containers/mutex"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

const kindMutex = "Mutex"

func newMutex(c *kernels.Construction) (any, error) {
	return kernels.NewSource(c, kindMutex, kernels.NamedByNode, func(name string) (*mutex.Mutex, error) { return mutex.New(name), nil }, nil)
}

// lockMutex outputs a scalar variant that holds the lock. The lock is released with the last tensor that refers to it.
func lockMutex(ctx *kernels.Context, done func(error)) {
	m, err := mutexOf(ctx)
	if err != nil {
		done(err)
		return
	}
	kernels.Wait(ctx, kernels.Awaited{Resource: m, Verb: "lock"}, done, func(end func(error)) func(error) {
		return m.Lock(ctx.Step.Cancellation, ctx.Step.Origin, func(l *mutex.Lock, err error) {
			if err == nil {
				err = setLock(ctx, l)
			}
			end(err)
		})
	})
}

// mutexOf returns the mutex named by the handle at input 0, recreating it if it was deleted.
func mutexOf(ctx *kernels.Context) (*mutex.Mutex, error) {
	h, err := ctx.Handle(0)
	if err != nil {
		return nil, err
	}
	if m, ok := h.Local.(*mutex.Mutex); ok && !m.Deleted() {
		return m, nil
	}
	r, err := ctx.Device.Resources().LookupOrCreate(h.Container, kindMutex, h.Name, func() (containers.Resource, error) { return mutex.New(h.Name), nil })
	if err != nil {
		return nil, err
	}
	m, ok := r.(*mutex.Mutex)
	if !ok {
		return nil, kernels.WrongResource(h.Container, h.Name, r, m)
	}
	return m, nil
}

func setLock(ctx *kernels.Context, l *mutex.Lock) error {
	t, err := tensor.New(ctx.Device.Pool(), tensor.Variant, nil)
	if err != nil {
		l.Release()
		return err
	}
	t.Variants()[0] = l
	ctx.SetOutput(0, t)
	return nil
}

// consumeLock ends a critical section: nothing else may have kept the lock.
func consumeLock(ctx *kernels.Context) error {
	t := ctx.Input(0)
	if t.DType() != tensor.Variant {
		return status.InvalidArgumentf("Expected input to be a variant, saw type: %v", t.DType())
	}
	if t.Rank() != 0 {
		return status.InvalidArgumentf("Expected input to be a scalar, saw shape: %v", t.Shape())
	}
	l, ok := t.Variants()[0].(*mutex.Lock)
	if !ok {
		return status.InvalidArgumentf("Expected input to contain a SharedLockReleaser object, but saw variant: '%T'", t.Variants()[0])
	}
	if n := l.References(); n != 1 {
		return status.InvalidArgumentf("Expected use count of lock to be 1, but saw: %d", n)
	}
	return nil
}
