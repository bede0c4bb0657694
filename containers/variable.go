package containers

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

// Variable is a named tensor that outlives sessions: both TensorFlow's reference variables and its resource
// variables. All methods may be called concurrently. Readers share the tensor's memory. A writer copies it only
// while someone still reads, so that what a reader holds never changes. A variable that has left its container
// keeps working for those that still hold it, without a value and without keeping one.
type Variable struct {
	// Name is what error messages call it.
	Name string
	// Shape is what a reference variable's op declares, and its first value is checked against;
	// KnownShape is false for unknown rank. Both are set before anybody else sees the variable.
	Shape      tensor.Shape
	KnownShape bool
	dtype      tensor.DType
	dead       atomic.Bool

	// mu guards value, and the moment at which dead is set: under mu, a dead variable has no
	// value. References are added to it only under mu or by who holds one already, so
	// a value that is exclusive under mu stays so until mu is unlocked.
	mu    sync.RWMutex
	value *tensor.Tensor
}

// NewVariable makes a variable without a value.
func NewVariable(name string, dtype tensor.DType) *Variable {
	return &Variable{Name: name, dtype: dtype}
}

// DType is the element type of the variable's values.
func (v *Variable) DType() tensor.DType { return v.dtype }

// Close drops the value and marks the variable deleted: it is the container's part of deleting it.
func (v *Variable) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set(nil)
	v.dead.Store(true)
}

// Deleted tells whether the variable was deleted from its container, so that a cached pointer to it has to be
// looked up again.
func (v *Variable) Deleted() bool { return v.dead.Load() }

// set takes over t; a deleted variable holds nothing.
func (v *Variable) set(t *tensor.Tensor) {
	if v.dead.Load() && t != nil {
		t.Release()
		t = nil
	}
	if v.value != nil {
		v.value.Release()
	}
	v.value = t
}

// Read returns the value with a reference for the caller, nil if there is none.
func (v *Variable) Read() *tensor.Tensor {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.value == nil {
		return nil
	}
	return v.value.Retain()
}

// View calls look with the value, which it borrows. If there is none, it fails like Update without calling
// look. While look runs, writers wait: they need not copy a large value that is read in some places, such as by
// a gather. look must not call the variable's methods, nor keep t.
func (v *Variable) View(look func(t *tensor.Tensor) error) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.value == nil {
		return v.Uninitialized()
	}
	return look(v.value)
}

// Initialized tells whether the variable holds a value.
func (v *Variable) Initialized() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.value != nil
}

// Assign makes t the value and takes over the caller's reference. The caller checks that t has the variable's
// dtype and a valid shape.
func (v *Variable) Assign(t *tensor.Tensor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set(t)
}

// Update calls change with the value, writable in place: memory that others can still see is copied to memory
// of pool first. It is Rewrite for changes of parts of a value on the host.
func (v *Variable) Update(pool *tensor.Pool, change func(t *tensor.Tensor) error) error {
	return v.Rewrite(pool, nil, func(next, old *tensor.Tensor) error {
		if next != old {
			copy(next.Data(), old.Data())
		}
		return change(next)
	})
}

// Rewrite calls change with the current value, old, and the tensor to fill with the new one, next. next is old
// itself if nobody else can see its memory, so that the change is in place. Otherwise next is spare, if that is
// not nil, exclusive to the caller, in memory and of the value's type and shape, or else new memory. A change
// of all elements is then one pass over memory, not a copy and a change.
//
// While change runs, no other update runs, and reads wait. It must not call the variable's methods, and keeps
// nothing. It checks before it writes: what it has written in place stays when it fails. Without a value, the
// error is FAILED_PRECONDITION in TensorFlow's words, and without memory RESOURCE_EXHAUSTED; the value is
// unchanged then. The elements have a fixed size.
func (v *Variable) Rewrite(memory tensor.Memory, spare *tensor.Tensor, change func(next, old *tensor.Tensor) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.value
	switch {
	case old == nil:
		return v.Uninitialized()
	case old.Exclusive():
		return change(old, old)
	}
	var next *tensor.Tensor
	if spare != nil && spare.Exclusive() && memory.Holds(spare) && spare.DType() == old.DType() && spare.Shape().Equal(old.Shape()) {
		next = spare.Retain()
	} else {
		var err error
		if next, err = memory.New(old.DType(), old.Shape()); err != nil {
			return err
		}
	}
	if err := change(next, old); err != nil {
		next.Release()
		return err
	}
	v.set(next)
	return nil
}

// Replace calls change with the value (borrowed, nil if there is none) and atomically makes its result the
// value: for updates that keep the dtype but change the shape, or start from nothing. change hands over a
// reference, even if it returns the old value (retained). If it returns nil or an error, the value stays. If
// the variable was deleted, change does not run, and the error is ABORTED.
func (v *Variable) Replace(change func(old *tensor.Tensor) (*tensor.Tensor, error)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dead.Load() {
		return status.Errorf(status.Aborted, "Variable %s was deleted.", v.Name)
	}
	t, err := change(v.value)
	if err != nil || t == nil {
		return err
	}
	v.set(t)
	return nil
}

// Uninitialized is the error of reading or updating a variable without a value.
func (v *Variable) Uninitialized() error {
	return status.Errorf(status.FailedPrecondition, "Attempting to use uninitialized value %s", v.Name)
}

// Show adds the size of the value to a listing.
func (v *Variable) Show(r *view.Resource) {
	if t := v.Read(); t != nil {
		defer t.Release()
		r.Bytes = int64(t.ByteSize())
	}
}

// Describe is the variable for listings: dtype, shape and bytes of its value.
func (v *Variable) Describe() string {
	t := v.Read()
	if t == nil {
		return fmt.Sprintf("%v, no value", v.dtype)
	}
	defer t.Release()
	return fmt.Sprintf("%v %v, %d bytes", t.DType(), t.Shape(), t.ByteSize())
}
