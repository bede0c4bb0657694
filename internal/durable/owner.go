package durable

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/troupe-run/troupe/graph/status"
)

const (
	ownerFile = "OWNER"
	format    = 1
)

// The states of a store, in its owner file.
const (
	stateNew    = "new"    // being created: nothing was acknowledged
	stateOpen   = "open"   // in use, or not closed properly
	stateClosed = "closed" // closed
)

// owner is the content of the owner file.
type owner struct {
	format  int
	state   string
	batches uint64 // of a closed store: written; of an open one: written when it was opened
	name    string
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (o owner) encode() []byte {
	text := fmt.Sprintf("troupe durable store\nformat %d\nstate %s %d\nowner %q\n", o.format, o.state, o.batches, o.name)
	return fmt.Appendf([]byte(text), "crc32c %08x\n", crc32.Checksum([]byte(text), castagnoli))
}

// parseOwner reads an owner file. Of a newer format it reads the format alone.
func parseOwner(b []byte) (o owner, err error) {
	text := string(b)
	if _, err := fmt.Sscanf(text, "troupe durable store\nformat %d\n", &o.format); err != nil {
		return o, errors.New("malformed")
	}
	i := strings.LastIndex(text, "crc32c ")
	var sum uint32
	if i < 0 {
		return o, errors.New("it has no checksum")
	}
	if _, err := fmt.Sscanf(text[i:], "crc32c %08x\n", &sum); err != nil || text[i:] != fmt.Sprintf("crc32c %08x\n", sum) ||
		sum != crc32.Checksum(b[:i], castagnoli) {
		return o, errors.New("its checksum is wrong")
	}
	if o.format > format {
		return o, nil
	}
	if _, err := fmt.Sscanf(text, "troupe durable store\nformat %d\nstate %s %d\nowner %q\n", &o.format, &o.state, &o.batches, &o.name); err != nil {
		return o, errors.New("malformed")
	}
	return o, nil
}

// readOwner reads the owner file of a directory; found is false if there is none.
func readOwner(f vfs.FS, dir string) (o owner, found bool, err error) {
	name := f.PathJoin(dir, ownerFile)
	b, err := readFile(f, name)
	if errors.Is(err, fs.ErrNotExist) {
		return o, false, nil
	}
	if err != nil {
		return o, false, status.Internalf("can't read %s: %v", name, err)
	}
	o, err = parseOwner(b)
	if err != nil {
		return o, true, status.Errorf(status.DataLoss, "the durable store's file %s is damaged: %v; restore the directory from a backup, or remove it to start without its state", name, err)
	}
	if o.format > format {
		return o, true, status.Errorf(status.FailedPrecondition,
			"the durable store in %s has format %d, but this version reads formats up to %d; use the version that wrote it, or another directory", dir, o.format, format)
	}
	return o, true, nil
}

// OwnerOf returns the owner of the store in a directory, or "" if there is no store that can be read.
func OwnerOf(dir string) string {
	o, _, err := readOwner(vfs.Default, dir)
	if err != nil {
		return ""
	}
	return o.name
}

func readFile(f vfs.FS, name string) (b []byte, err error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(file)
}

// writeOwner replaces the owner file, so that a crash leaves the old or the new one. The guard learns of errors.
func writeOwner(g *guard, dir string, o owner) error {
	name := g.PathJoin(dir, ownerFile)
	file, err := g.Create(name+".tmp", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, bytes.NewReader(o.encode()))
	if err := errors.Join(err, file.Sync(), file.Close(), g.Rename(name+".tmp", name)); err != nil {
		return err
	}
	return syncDir(g, dir)
}

// makeDir makes a directory and its missing parents, and syncs those that have a new entry, so that a loss of power leaves no directory out. The
// guard learns of errors.
func makeDir(g *guard, dir string) error {
	parents := []string{g.PathDir(dir)} // also of a directory that is there: whoever made it may not have synced it
	for at := parents[0]; ; {
		_, err := g.Stat(at)
		next := g.PathDir(at)
		if !errors.Is(err, fs.ErrNotExist) || next == at {
			break // there, or MkdirAll says what is wrong
		}
		parents, at = append(parents, next), next
	}
	err := g.MkdirAll(dir, 0o700)
	for _, p := range parents {
		err = errors.Join(err, syncDir(g, p))
	}
	return err
}

func syncDir(f vfs.FS, dir string) error {
	d, err := f.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
