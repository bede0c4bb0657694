// Package durable keeps the durable state of a task on disk: resources, each with entries of a key and a value. It does not know what they
// mean.
//
// A Tx has the changes of a step. After a crash either all of them are there or none, and a step is acknowledged only when its changes are
// on disk. One goroutine, the committer, writes all transactions that are ready as one batch with one fsync, and then calls their dones.
// While it waits for the disk, others queue up.
//
// # Dependencies
//
// A transaction that changes a key depends on the one that changed the key before, until that is on disk; so does one that only relies on that
// change (Tx.After). A transaction is ready when it has ended and all that it depends on, directly or not, have ended. Those are written in one
// batch, so that nothing on disk comes after a change
// that could still be lost. A transaction that goes on is split if it waits for something (Tx.Waits), or if one that depends on it has run
// out of Options.Patience: its changes so far are written with the other's, and it goes on with those that come later. After a crash a split
// transaction may have only a prefix of its changes.
//
// # Failures
//
// After the first failed write or fsync nothing more is written, and all pending and later transactions get the error: the kernel may have
// dropped what an fsync did not write, so that a second try could succeed without the data. The task must be restarted. To ensure this, pebble
// writes through a file system that freezes at the first error (see guard). A value that can't be encoded fails the store, too: the state in
// memory would be ahead of the disk.
//
// A disk with less than Options.Reserve free does not fail the store: Admits asks its callers to add nothing for a while. Changes that were made
// by then are written, for which the reserve is there, and so are those that remove something, until a quarter of it is left.
//
// # Room
//
// Options.Limit bounds the files in the same way. What may be removed is still in them until they are rewritten: near the limit, and when
// something was refused, the store has pebble compact all levels, a range of keys after the other, since there are two copies of each
// meanwhile. If that gained little, the next time is later each time, until it rests for eight times as long as it took. What replaces other
// values is never refused: commits wait for such a rewriting while the files exceed the limit by a quarter.
//
// The file system delays what compactions write (Options.Compaction), unless commits or the end of the store wait for them.
//
// # On disk
//
// A directory has the files of a pebble database, and the text file OWNER, with the format, the cluster and task that it belongs to, whether
// it was closed properly, and how many batches it had then, or when it was opened. OWNER has a checksum, and is replaced by renaming.
//
// The keys of the database; numbers have 8 bytes, the highest first:
//
//	mb                   the number of batches written, in each batch first
//	mc                   the number of the next cell
//	r <cell>             a resource: its place (four strings, each after its length as a varint), and its description
//	e <cell> <key>       an entry of a resource
//
// The number of a cell is never used again, so that a change of a deleted resource can't appear in its successor. A deletion is in the same
// batch as the first transaction whose changes it makes moot, or in an earlier one. Open removes the entries of cells that are not there.
//
// # Damage
//
// Tables have a checksum for each block. A damaged block fails the read, and the store if it is in use. Pebble's logs (the manifest and the
// WALs) have a checksum for each chunk, but pebble takes a damaged chunk for the end of the log, unless a later block of a WAL proves that it
// was synced. So Open looks for more proof: a valid record after a damaged one, since each is synced before the next is written; and batches
// that are missing between the tables and the WALs. A store that was closed must have all batches that were written. All this is refused with
// DATA_LOSS.
//
// After a crash of the process, the last record of a WAL is indistinguishable from one that was not synced: if it is damaged, or if the end of
// the newest WAL is cut off or the file is removed, the batches there are lost, and Open does not notice. What is left is a state that the
// store has had.
//
// # Limits
//
// A batch has at most 4 GiB. The WALs have about the size of what is not flushed: up to 32 MiB and two batches.
package durable
