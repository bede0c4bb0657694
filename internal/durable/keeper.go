package durable

// Keeper writes the changes of a resource to its cell. The zero Keeper belongs to a resource that is not durable, and writes nothing. The
// resource's lock guards it: changes must be recorded in the order in which they are made in memory.
type Keeper struct{ cell *Cell }

// Use makes the resource durable in c from now on, which has its state already. If c is nil, it is not durable.
func (k *Keeper) Use(c *Cell) { k.cell = c }

// Keep makes the resource durable in c from now on, which has nothing yet: state records what there is, as for Take.
func (k *Keeper) Keep(c *Cell, state func(r Recorder)) {
	k.cell = c
	k.Change(nil, state)
}

// Kept reports whether the resource is durable.
func (k *Keeper) Kept() bool { return k.cell != nil }

// Admits returns an error if the resource must not change in a way that needs n, since the change could not be kept. It is called before the
// change.
func (k *Keeper) Admits(n Need) error {
	if k.cell == nil {
		return nil
	}
	return k.cell.store.Admits(n)
}

// Change calls record, if the resource is durable, to record a change by a step, or by none if by is nil. The change of a step is on disk when
// the step is answered, and another one soon.
func (k *Keeper) Change(by *Tx, record func(r Recorder)) {
	switch {
	case k.cell == nil:
	case by != nil:
		by.BeginChange()
		defer by.EndChange()
		record(Recorder{tx: by, cell: k.cell})
	default:
		own := k.cell.store.Begin()
		record(Recorder{tx: own, cell: k.cell})
		own.End(func(error) {}) // a store that fails refuses the next change, and says so itself
	}
}

// After makes a step that relies on what the resource is, and changes nothing, wait for the changes of others that are not on disk yet.
func (k *Keeper) After(by *Tx) {
	if k.cell != nil && by != nil {
		by.AfterAll(k.cell)
	}
}

// Size returns about how many bytes state records, which is called once.
func Size(state func(r Recorder)) int {
	n := 0
	state(Recorder{size: &n})
	return n
}

// Recorder records what changes in a resource's cell, or all that it has in an image.
type Recorder struct {
	tx    *Tx
	cell  *Cell
	image *Image // instead of both, if it is not nil
	size  *int   // instead of all, if it is not nil: the bytes of what is set
}

// Set sets a key, and takes over v.
func (r Recorder) Set(key []byte, v Value) {
	switch {
	case r.size != nil:
		*r.size += len(key) + sizeOf(v)
		v.Release()
		return
	case r.image != nil:
		r.image.add(key, v)
		return
	}
	r.tx.Set(r.cell, key, v)
}

// Delete deletes a key. What has none, such as an image, has none that are not there.
func (r Recorder) Delete(key []byte) {
	if r.tx != nil {
		r.tx.Delete(r.cell, key)
	}
}
