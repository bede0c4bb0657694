package containers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
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
	cell       *durable.Cell // where the value is on disk; nil if it is not durable
	pictures   *Pictures     // what keeps it, if it is not written at every step
	every      time.Duration // how often pictures are taken
	written    head          // the last picture; used by pictures only

	// mu guards value, and the setting of dead: under mu, a dead variable has no value. References are added to value only under mu or by a
	// holder of one, so a value that is exclusive under mu stays so until mu is unlocked.
	mu    sync.RWMutex
	value *tensor.Tensor
	dirty bool // no picture of the value has been taken
}

// NewVariable makes a variable without a value.
func NewVariable(name string, dtype tensor.DType) *Variable {
	return &Variable{Name: name, dtype: dtype}
}

// DType is the element type of the variable's values.
func (v *Variable) DType() tensor.DType { return v.dtype }

// Close drops the value and marks the variable as deleted. The container calls it when it deletes the variable.
func (v *Variable) Close() {
	if v.pictures != nil {
		v.pictures.remove(v, v.every, v.unwritten())
	}
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

// Assign makes t the value and takes over the caller's reference, before the variable is shared. The caller must check that t has the
// variable's dtype and a valid shape.
func (v *Variable) Assign(t *tensor.Tensor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set(t)
}

// About implements Durable.
func (v *Variable) About() ([]byte, error) {
	if !tuple.Keepable(v.dtype) {
		return nil, status.Errorf(status.FailedPrecondition, "elements of type %v refer to memory, and cannot be kept in a durable container", v.dtype)
	}
	return json.Marshal(aboutVariable{v.Name, v.dtype, v.Shape, v.KnownShape})
}

// aboutVariable is what is kept of a variable besides its value.
type aboutVariable struct {
	Name       string
	DType      tensor.DType
	Shape      tensor.Shape
	KnownShape bool
}

// Keep implements Durable: the value is on disk whenever a step that has changed it is answered.
func (v *Variable) Keep(cell *durable.Cell) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cell = cell
	v.changed(nil)
}

// keepBy keeps the value by pictures, taken at intervals.
func (v *Variable) keepBy(cell *durable.Cell, p *Pictures, every time.Duration) {
	v.mu.Lock()
	v.cell, v.pictures, v.every, v.dirty = cell, p, every, v.value != nil
	v.mu.Unlock()
	p.add(v, every)
}

// State implements Durable: the value is in pieces, as in a picture.
func (v *Variable) State(r durable.Recorder) {
	t := v.Read()
	if t == nil {
		return
	}
	defer t.Release()
	h := headOf(t, 1)
	r.Set(headKey, h)
	for i := range h.Pieces {
		r.Set(pieceKey(h.Number, i), pieceOf(t, i))
	}
}

// RestoreVariable returns the variable whose value from has, with the value in memory. If that is a cell, it is kept on as the manager keeps its
// container.
func (m *Manager) RestoreVariable(from durable.Source, container string, about []byte, memory *tensor.Pool) (*Variable, error) {
	var a aboutVariable
	if err := durable.ReadAbout(about, "a variable", &a); err != nil {
		return nil, err
	}
	v := &Variable{Name: a.Name, dtype: a.DType, Shape: a.Shape, KnownShape: a.KnownShape, cell: from.Cell()}
	var s shot
	err := from.Each(func(key, value []byte) error {
		if known, err := s.read(key, value, memory); known {
			return err
		}
		if len(key) > 0 {
			return status.Errorf(status.DataLoss, "it has the key %q", key)
		}
		t, err := tuple.Read(value, memory)
		if err == nil && len(t) != 1 {
			err = errPieces
		}
		if err != nil {
			t.Release()
			return err
		}
		v.set(t[0])
		return nil
	})
	picture, incomplete := s.done()
	if err = cmp.Or(err, incomplete); err == nil && picture != nil {
		v.set(picture)
	} else if s.value != nil {
		s.value.Release() // what has come of it, if the source ends with an error
	}
	if err == nil && v.value != nil && v.value.DType() != a.DType {
		err = status.Errorf(status.DataLoss, "it is of type %v, and should be of type %v", v.value.DType(), a.DType)
	}
	if err != nil {
		v.set(nil)
		return nil, status.Errorf(tuple.Code(err), "the value of variable %s cannot be read: %v", a.Name, err)
	}
	if v.cell != nil {
		v.written = s.head
		if err := m.resume(v, container, s.stale); err != nil {
			v.set(nil)
			return nil, err
		}
	}
	return v, nil
}

// resume keeps a restored variable as its container is kept now, which may be in another way than before, and removes what is not needed. It
// refuses a value that cannot be kept in that way.
func (m *Manager) resume(v *Variable, container string, stale [][]byte) error {
	k := m.keepingOf(container)
	if k != nil {
		if err := v.keepable(v.value, k.every(container) > 0); err != nil {
			return err
		}
	}
	tidy := v.cell.Store().Cleanup()
	for _, key := range stale {
		tidy.Delete(v.cell, key)
	}
	if k != nil {
		if every := k.every(container); every > 0 {
			v.keepBy(v.cell, k.pictures, every)
			v.dirty = v.value != nil && v.written.Pieces == 0
			tidy.End(func(error) {}) // the next restart tries again
			return nil
		}
	}
	if v.written.Pieces > 0 {
		v.changed(nil)
		tidy.Delete(v.cell, headKey)
		for i := range v.written.Pieces {
			tidy.Delete(v.cell, pieceKey(v.written.Number, i))
		}
		v.written = head{}
	}
	tidy.End(func(error) {})
	return nil
}

// unwritten returns the value, with a reference for the caller, if it has changed since the last call.
func (v *Variable) unwritten() *tensor.Tensor {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.dirty || v.value == nil {
		return nil
	}
	v.dirty = false
	return v.value.Retain()
}

// missed records that the value that unwritten has returned could not be written.
func (v *Variable) missed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dirty = true
}

// enter is called before a change, without mu. If the variable is kept by pictures, it waits for one that is being taken; by is as for
// Rewrite. The caller calls leave after the change.
func (v *Variable) enter(by *durable.Tx) (leave func()) {
	switch {
	case v.pictures == nil:
		return func() {}
	case by != nil:
		by.Enter()
		return func() {} // when its step ends
	}
	g := v.cell.Store().Gate()
	g.Enter()
	return g.Leave
}

// changeable returns an error if t must not become the value, since that could not be kept. t is nil if the value is not known yet.
func (v *Variable) changeable(t *tensor.Tensor) error {
	if v.cell == nil {
		return nil
	}
	was, size := sizeOf(v.value), sizeOf(t)
	if v.pictures != nil {
		// It is written later: what is refused now is what makes it larger, and, once a picture could not be written, all.
		return cmp.Or(v.pictures.failed(v.every), v.keepable(t, true), v.cell.Store().Admits(durable.Adds(max(size-was, 0)).InPieces(pieceBytes)))
	}
	return cmp.Or(v.keepable(t, false), v.cell.Store().Admits(durable.Replaces(was, size)))
}

// keepable returns an error if t, which may be nil, cannot be kept as the variable's value, by pictures or at every step. It must not become the
// value: the pictures of all variables of its interval would fail, or a commit.
func (v *Variable) keepable(t *tensor.Tensor, byPictures bool) error {
	switch size := sizeOf(t); {
	case !byPictures && size > mostAtOnce:
		return status.Errorf(status.ResourceExhausted, "variable %s has %d bytes, and a durable variable that is written at every step has at most %d: keep it by snapshots (:snapshot=30s), or in another container",
			v.Name, size, mostAtOnce)
	case byPictures && size > mostStrings && t.DType().Size() == 0:
		return status.Errorf(status.ResourceExhausted, "variable %s has %d bytes of strings, and at most %d can be kept", v.Name, size, mostStrings)
	}
	return nil
}

func sizeOf(t *tensor.Tensor) int {
	if t == nil {
		return 0
	}
	return t.ByteSize()
}

// mostAtOnce is the most bytes of a value that is written at every step.
const mostAtOnce = 1 << 30

// changed records the value as a change by a step, or by none if it is nil. The caller holds mu.
func (v *Variable) changed(by *durable.Tx) {
	if v.cell == nil || v.value == nil {
		return
	}
	if v.pictures != nil {
		v.dirty = true
		return
	}
	value := tuple.Tuple{v.value.Retain()}
	if by != nil {
		by.Set(v.cell, nil, value)
		return
	}
	own := v.cell.Store().Begin()
	own.Set(v.cell, nil, value)
	own.End(func(error) {}) // a store that fails refuses the next change, and says so itself
}

// Update calls change with the value, which it may write in place: memory that is shared is first copied to memory of pool. It is Rewrite
// for changes to parts of a value on the host.
func (v *Variable) Update(by *durable.Tx, pool *tensor.Pool, change func(t *tensor.Tensor) error) error {
	return v.Rewrite(by, pool, nil, func(next, old *tensor.Tensor) error {
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
//
// by is the changes of the step that makes this one; it is nil for a change by no step.
func (v *Variable) Rewrite(by *durable.Tx, memory tensor.Memory, spare *tensor.Tensor, change func(next, old *tensor.Tensor) error) error {
	defer v.enter(by)()
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.value
	if err := v.changeable(old); err != nil {
		return err
	}
	switch {
	case old == nil:
		return v.Uninitialized()
	case old.Exclusive():
		err := change(old, old)
		v.changed(by)
		return err
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
	v.changed(by)
	return nil
}

// Replace calls change with the value (borrowed, nil if there is none) and atomically makes its result the value. Use it for updates that
// keep the dtype but change the shape, or that start without a value. change passes on a reference, even if it returns the old value
// (retained). If it returns nil or an error, the value stays. If the variable was deleted, change does not run, and the error is ABORTED.
// by is as for Rewrite.
func (v *Variable) Replace(by *durable.Tx, change func(old *tensor.Tensor) (*tensor.Tensor, error)) error {
	defer v.enter(by)()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dead.Load() {
		return status.Errorf(status.Aborted, "Variable %s was deleted.", v.Name)
	}
	if err := v.changeable(v.value); err != nil {
		return err
	}
	t, err := change(v.value)
	if err != nil || t == nil {
		return err
	}
	if err := v.changeable(t); err != nil { // it is larger than the one before, maybe
		t.Release()
		return err
	}
	v.set(t)
	v.changed(by)
	return nil
}

// Uninitialized returns the error for reading or updating a variable without a value.
func (v *Variable) Uninitialized() error {
	return status.Errorf(status.FailedPrecondition, "Attempting to use uninitialized value %s", v.Name)
}

// Show adds the size of the value to a listing, and whether it is durable.
func (v *Variable) Show(r *view.Resource) {
	r.Durable = v.cell != nil
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
