package checkpoint

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/files"
)

// A process that is killed in the midst of a save cannot remove what it has made so far. So each save has a journal: a
// file in the folder, locked as long as the save goes on, that tells which files it makes. The system gives up the lock
// when the process ends, however it ends, on whichever machine. The next save or restore in the folder removes what a
// journal without its lock tells of and the checkpoint does not need. A journal whose lock is held, or cannot be asked
// for, is left alone.
type journal struct {
	fs   files.FS
	dir  string
	id   string // which the names of the save's temporary files end with
	file files.File
}

const (
	temporary     = ".tempstate" // and the id
	journalPrefix = ".save"
	maxJournal    = 1 << 20 // bytes that are read of one
	maxRecords    = 64      // which are more than a save writes
)

// record is a line of a journal. What it names is in the journal's folder.
type record struct {
	// The data files First to First+Count-1 of Shards of the checkpoint Base, which are not needed if the index is not
	// one of so many.
	Base                 string `json:",omitempty"`
	First, Count, Shards int32  `json:",omitempty"`
	// Sources are files of checkpoints that are merged: not needed once the merged one is there.
	Sources []string `json:",omitempty"`
	// Committed tells that the new checkpoint is there.
	Committed bool `json:",omitempty"`
}

// begin begins a save in a folder, after those that were cut off have been cleared away.
func begin(fsys files.FS, dir string) (*journal, error) {
	unlock, err := fsys.Lock(dir) // nobody takes a journal for one without a lock that is about to be locked
	if err != nil {
		return nil, files.Error(dir, err)
	}
	defer unlock()
	names, err := fsys.List(dir)
	if err != nil {
		return nil, files.Error(dir, err)
	}
	sweep(fsys, dir, names)
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	j := &journal{fs: fsys, dir: dir, id: hex.EncodeToString(random[:])}
	if j.file, err = fsys.Create(j.name()); err != nil {
		return nil, files.Error(j.name(), err)
	}
	// A file system without locks gives nobody this one, and nothing is cleared away.
	_, _ = j.file.TryLock(true)
	return j, nil
}

func (j *journal) name() string { return filepath.Join(j.dir, journalPrefix+temporary+j.id) }

// temporary is the name of a file that is not complete yet, which no other save has.
func (j *journal) temporary(name string) string { return name + temporary + j.id }

// note writes records, durably, before what they tell of happens.
func (j *journal) note(records ...record) error {
	var lines []byte
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return status.Internalf("Cannot encode the journal of a save: %v", err)
		}
		lines = append(append(lines, line...), '\n')
	}
	_, err := j.file.Write(lines)
	if err == nil {
		err = j.file.Sync()
	}
	return files.Error(j.name(), err)
}

// end ends a save. What is left of one that failed is cleared away as after a crash.
func (j *journal) end(failed error) {
	if failed == nil {
		_ = j.fs.Remove(j.name()) // or the next save does
	}
	_ = j.file.Close() // nobody needs what is in it any more
	if failed == nil {
		return
	}
	fsys := files.Always(j.fs)
	unlock, err := fsys.Lock(j.dir)
	if err != nil {
		return // it is left to the next save
	}
	defer unlock()
	if names, err := fsys.List(j.dir); err == nil {
		sweepOne(fsys, j.dir, filepath.Base(j.name()), names)
	}
}

// writeFile writes a file that has its name only when all of it is durable.
func (j *journal) writeFile(name string, write func(io.Writer) error) error {
	temp := j.temporary(name)
	f, err := j.fs.Create(temp)
	if err != nil {
		return files.Error(temp, err)
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return files.Error(temp, err)
	}
	if err := closeDurably(f); err != nil {
		return files.Error(temp, err)
	}
	if err := j.fs.Rename(temp, name); err != nil {
		return files.Error(name, err)
	}
	return syncDir(j.fs, filepath.Dir(name))
}

// Sweep clears away what saves that were cut off have left in the folder of a checkpoint. It is for those who read: what
// they may not change stays.
func Sweep(fsys files.FS, prefix string) {
	dir := filepath.Dir(prefix)
	names, err := fsys.List(dir)
	if err != nil || !slices.ContainsFunc(names, isJournal) {
		return // there is nothing, or reading will tell why not
	}
	unlock, err := fsys.Lock(dir)
	if err != nil {
		return
	}
	defer unlock()
	sweep(fsys, dir, names)
}

var journalName = regexp.MustCompile(`^\.save\.tempstate[0-9a-f]{16}$`)

func isJournal(name string) bool { return journalName.MatchString(name) }

// sweep clears away for all journals in a folder, which is locked.
func sweep(fsys files.FS, dir string, names []string) {
	for _, name := range names {
		if isJournal(name) {
			sweepOne(fsys, dir, name, names)
		}
	}
}

func sweepOne(fsys files.FS, dir, name string, names []string) {
	f, err := fsys.Open(filepath.Join(dir, name))
	if err != nil {
		return // it has ended meanwhile, or is not ours to read
	}
	defer f.Close() // nothing was written
	if ok, err := f.TryLock(false); !ok || err != nil {
		return // its save goes on, or nobody can tell
	}
	left, err := leftovers(fsys, dir, names, readRecords(f))
	if err != nil {
		return // whether the checkpoint needs them cannot be told now
	}
	_, id, _ := strings.Cut(name, temporary)
	for _, other := range names {
		if other != name && strings.HasSuffix(other, temporary+id) {
			left = append(left, other)
		}
	}
	gone := true
	for _, l := range left {
		err := fsys.Remove(filepath.Join(dir, l))
		gone = gone && (err == nil || errors.Is(err, fs.ErrNotExist))
	}
	if gone {
		_ = fsys.Remove(filepath.Join(dir, name)) // or the next save tries again
	}
}

// readRecords reads a journal up to where it was cut off.
func readRecords(f files.File) (all []record) {
	in := bufio.NewScanner(io.NewSectionReader(f, 0, min(f.Size(), maxJournal)))
	in.Buffer(nil, maxJournal)
	for len(all) < maxRecords && in.Scan() {
		var r record
		d := json.NewDecoder(bytes.NewReader(in.Bytes()))
		d.DisallowUnknownFields()
		if d.Decode(&r) != nil {
			return all
		}
		all = append(all, r)
	}
	return all
}

// has tells whether a name is that of a data file that the record tells of.
func (r record) has(name string) bool {
	rest, ok := strings.CutPrefix(name, r.Base+".data-")
	number, _, ok2 := strings.Cut(rest, "-of-")
	n, err := strconv.ParseInt(number, 10, 32)
	return ok && ok2 && err == nil && int64(r.First) <= n && n < int64(r.First)+int64(r.Count) && name == dataName(r.Base, int32(n), r.Shards)
}

// partName are the names of a checkpoint's files.
var partName = regexp.MustCompile(`\.(index|data-[0-9]{5,}-of-[0-9]{5,})$`)

// leftovers are the files of a save that was cut off which no checkpoint needs; names are those in the folder. Records
// are believed for names of checkpoints' files in the folder, or below it: somebody else may have written them.
func leftovers(fsys files.FS, dir string, names []string, records []record) (left []string, err error) {
	committed := false
	var sources []string
	for i, r := range records {
		committed = committed || r.Committed
		sources = append(sources, r.Sources...)
		if r.Base == "" || filepath.Base(r.Base) != r.Base {
			continue
		}
		shards, err := shardsOf(fsys, filepath.Join(dir, r.Base))
		if err != nil {
			return nil, err
		}
		if shards == r.Shards {
			committed = committed || i == 0 // the first record is of what no earlier index names
			continue
		}
		for _, name := range names {
			if r.has(name) {
				left = append(left, name)
			}
		}
	}
	if !committed {
		return left, nil
	}
	for _, name := range sources {
		if filepath.IsLocal(name) && partName.MatchString(name) {
			left = append(left, name)
		}
	}
	return left, nil
}
