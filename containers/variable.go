package containers

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Variable is a named tensor that outlives sessions: both TensorFlow's reference variables and
// its resource variables. All methods may be called concurrently. Readers share the tensor's
// memory; a writer copies it only while someone still reads, so that what a reader holds never
// changes. A variable that left its container keeps working, without a value and without
// keeping one, for those that hold it still.
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
	mu    sync.Mutex
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

// Deleted tells whether the variable was deleted from its container, so that a cached pointer
// to it has to be looked up anew.
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

// Read returns the value with a reference for the caller, nil when there is none.
func (v *Variable) Read() *tensor.Tensor {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.value == nil {
		return nil
	}
	return v.value.Retain()
}

// Initialized tells whether the variable holds a value.
func (v *Variable) Initialized() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value != nil
}

// Assign makes t the value and takes over the caller's reference. That t has the variable's
// dtype and a legal shape is for the caller to check.
func (v *Variable) Assign(t *tensor.Tensor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set(t)
}

// Update calls change with the value, writable in place: memory that somebody else can still
// see is copied to memory of pool first. While change runs no other update runs, and reads wait;
// it must not call the variable's methods, and keeps t no longer than it runs. What it wrote
// stays when it fails. Without a value the error is FAILED_PRECONDITION in TensorFlow's words,
// and RESOURCE_EXHAUSTED (the value unchanged) where there is no memory for the copy.
func (v *Variable) Update(pool *tensor.Pool, change func(t *tensor.Tensor) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.value == nil {
		return v.Uninitialized()
	}
	if !v.value.Exclusive() {
		own, err := v.value.Clone(pool)
		if err != nil {
			return err
		}
		v.set(own)
	}
	return change(v.value)
}

// Replace calls change with the value (borrowed, nil when there is none) and makes what it
// returns the value, all in one: for updates that change dtype-preserving shape or start from
// nothing. change hands over a reference, also when that is the old value (retained); returning
// nil or an error keeps the value. Where the variable was deleted change does not run, and the
// error is ABORTED.
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

// Describe is the variable for listings: dtype, shape and bytes of its value.
func (v *Variable) Describe() string {
	t := v.Read()
	if t == nil {
		return fmt.Sprintf("%v, no value", v.dtype)
	}
	defer t.Release()
	return fmt.Sprintf("%v %v, %d bytes", t.DType(), t.Shape(), t.ByteSize())
}
