package containers

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

// Variable is a named tensor that outlives sessions: it implements both TensorFlow's reference variables and its resource variables. All
// methods may be called concurrently. Readers share the tensor's memory. A writer copies it only if it has readers, so a value never
// changes under a reader. A variable that has left its container keeps working for those that still hold it, without a value and without
// keeping one.
type Variable struct {
	// Name is the variable's name in error messages.
	Name string
	// Shape is declared by a reference variable's op, and its first value is checked against it; KnownShape is false for unknown rank. Both
	// are set before the variable is shared.
	Shape      tensor.Shape
	KnownShape bool
	dtype      tensor.DType
	dead       atomic.Bool

	// mu guards value, and the setting of dead: under mu, a dead variable has no value. References are added to value only under mu or by a
	// holder of one, so a value that is exclusive under mu stays so until mu is unlocked.
	mu    sync.RWMutex
	value *tensor.Tensor
}

// NewVariable makes a variable without a value.
func NewVariable(name string, dtype tensor.DType) *Variable {
	return &Variable{Name: name, dtype: dtype}
}

// DType is the element type of the variable's values.
func (v *Variable) DType() tensor.DType { return v.dtype }

// Close drops the value and marks the variable as deleted. The container calls it when it deletes the variable.
func (v *Variable) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set(nil)
	v.dead.Store(true)
}

// Deleted reports whether the variable was deleted from its container, so that a cached pointer to it must be looked up again.
func (v *Variable) Deleted() bool { return v.dead.Load() }

// set takes over t. A deleted variable holds no value.
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

// Read returns the value with a reference for the caller, or nil if there is none.
func (v *Variable) Read() *tensor.Tensor {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.value == nil {
		return nil
	}
	return v.value.Retain()
}

// View calls look with the value, which it borrows. If there is none, it fails like Update without calling look. Writers wait while look
// runs, so they need not copy a large value of which only a part is read, such as by a gather. look must not call the variable's methods,
// nor keep t.
func (v *Variable) View(look func(t *tensor.Tensor) error) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.value == nil {
		return v.Uninitialized()
	}
	return look(v.value)
}

// Initialized reports whether the variable holds a value.
func (v *Variable) Initialized() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.value != nil
}

// Assign makes t the value and takes over the caller's reference. The caller must check that t has the variable's dtype and a valid shape.
func (v *Variable) Assign(t *tensor.Tensor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set(t)
}

// Update calls change with the value, which it may write in place: memory that is shared is first copied to memory of pool. It is Rewrite
// for changes to parts of a value on the host.
func (v *Variable) Update(pool *tensor.Pool, change func(t *tensor.Tensor) error) error {
	return v.Rewrite(pool, nil, func(next, old *tensor.Tensor) error {
		if next != old {
			copy(next.Data(), old.Data())
		}
		return change(next)
	})
}

// Rewrite calls change with the current value, old, and the tensor to fill with the new one, next. If the value's memory is not shared,
// next is old itself and the change is in place. Otherwise next is spare, if that is not nil, is exclusive to the caller, belongs to memory
// and has the value's type and shape; or else it is new memory. A change of all elements is then one pass over memory, not a copy and a
// change.
//
// While change runs, other updates and reads wait. It must not call the variable's methods, nor keep the tensors. It must check before it
// writes, since writes in place stay when it fails. Without a value, the error is FAILED_PRECONDITION in TensorFlow's words; without
// memory, it is RESOURCE_EXHAUSTED and the value is unchanged. The elements must have a fixed size.
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

// Replace calls change with the value (borrowed, nil if there is none) and atomically makes its result the value. Use it for updates that
// keep the dtype but change the shape, or that start without a value. change passes on a reference, even if it returns the old value
// (retained). If it returns nil or an error, the value stays. If the variable was deleted, change does not run, and the error is ABORTED.
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

// Uninitialized returns the error for reading or updating a variable without a value.
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

// Describe describes the variable for listings: dtype, shape and bytes of its value.
func (v *Variable) Describe() string {
	t := v.Read()
	if t == nil {
		return fmt.Sprintf("%v, no value", v.dtype)
	}
	defer t.Release()
	return fmt.Sprintf("%v %v, %d bytes", t.DType(), t.Shape(), t.ByteSize())
}
