package durable

// Keeper writes the changes of a resource to its cell. The zero Keeper belongs to a resource that is not durable, and writes nothing. The
// resource's lock guards it: changes must be recorded in the order in which they are made in memory.
type Keeper struct{ cell *Cell }

// Use makes the resource durable in c from now on.
func (k *Keeper) Use(c *Cell) { k.cell = c }

// Kept reports whether the resource is durable.
func (k *Keeper) Kept() bool { return k.cell != nil }

// Err returns an error if the resource must not change, since changes of it cannot be kept.
func (k *Keeper) Err() error {
	if k.cell == nil {
		return nil
	}
	return k.cell.store.Err()
}

// Change calls record, if the resource is durable, to record a change by a step, or by none if by is nil. The change of a step is on disk when
// the step is answered, and another one soon.
func (k *Keeper) Change(by *Tx, record func(r Recorder)) {
	switch {
	case k.cell == nil:
	case by != nil:
		record(Recorder{by, k.cell})
	default:
		own := k.cell.store.Begin()
		record(Recorder{own, k.cell})
		own.End(func(error) {}) // a store that fails refuses the next change, and says so itself
	}
}

// Recorder records what changes in a resource's cell.
type Recorder struct {
	tx   *Tx
	cell *Cell
}

// Set sets a key, and takes over v.
func (r Recorder) Set(key []byte, v Value) { r.tx.Set(r.cell, key, v) }

// Delete deletes a key.
func (r Recorder) Delete(key []byte) { r.tx.Delete(r.cell, key) }
