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

// A process that is killed during a save cannot remove what it has written so far. Therefore each save has a journal: a file in the folder
// that lists the files the save creates, locked for the duration of the save. The system releases the lock when the process ends, however
// it ends and on whichever machine. The next save or restore in the folder removes the files listed in an unlocked journal that the
// checkpoint does not need. A journal whose lock is held, or cannot be tested, is left alone.
type journal struct {
	fs   files.FS
	dir  string
	id   string // suffix of the names of the save's temporary files
	file files.File
}

const (
	temporary     = ".tempstate" // followed by the id
	journalPrefix = ".save"
	maxJournal    = 1 << 20 // maximum number of bytes read from a journal
	maxRecords    = 64      // more than a save writes
)

// record is a line of a journal. The files it names are in the journal's folder.
type record struct {
	// The data files First to First+Count-1 of Shards of the checkpoint Base. They are not needed unless the index is for that number of
	// shards.
	Base                 string `json:",omitempty"`
	First, Count, Shards int32  `json:",omitempty"`
	// Sources are files of merged checkpoints: not needed once the merged one exists.
	Sources []string `json:",omitempty"`
	// Committed reports that the new checkpoint exists.
	Committed bool `json:",omitempty"`
}

// begin begins a save in a folder, after cleaning up interrupted saves.
func begin(fsys files.FS, dir string) (*journal, error) {
	unlock, err := fsys.Lock(dir) // a new journal must not look abandoned before it is locked
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
	// On a file system without locks, no journal can be locked and nothing is cleaned up.
	_, _ = j.file.TryLock(true)
	return j, nil
}

func (j *journal) name() string { return filepath.Join(j.dir, journalPrefix+temporary+j.id) }

// temporary returns the name of an incomplete file, unique to this save.
func (j *journal) temporary(name string) string { return name + temporary + j.id }

// note writes records, durably, before the changes that they announce.
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

// end ends a save. The leftovers of a failed one are cleaned up as after a crash.
func (j *journal) end(failed error) {
	if failed == nil {
		_ = j.fs.Remove(j.name()) // or the next save does
	}
	_ = j.file.Close() // its content is not needed any more
	if failed == nil {
		return
	}
	fsys := files.Always(j.fs)
	unlock, err := fsys.Lock(j.dir)
	if err != nil {
		return // left to the next save
	}
	defer unlock()
	if names, err := fsys.List(j.dir); err == nil {
		sweepOne(fsys, j.dir, filepath.Base(j.name()), names)
	}
}

// writeFile writes a file that gets its name only when all of it is durable.
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

// Sweep cleans up what interrupted saves have left in the folder of a checkpoint. It is called by readers: files that they may not change
// stay.
func Sweep(fsys files.FS, prefix string) {
	dir := filepath.Dir(prefix)
	names, err := fsys.List(dir)
	if err != nil || !slices.ContainsFunc(names, isJournal) {
		return // there is nothing, or reading will report the error
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

// sweep cleans up for all journals in a folder, which the caller has locked.
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
		return // ended meanwhile, or not readable for this process
	}
	defer f.Close() // nothing was written
	if ok, err := f.TryLock(false); !ok || err != nil {
		return // its save is still running, or that is unknown
	}
	left, err := leftovers(fsys, dir, names, readRecords(f))
	if err != nil {
		return // unknown whether the checkpoint needs them
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

// has reports whether name is that of a data file listed in the record.
func (r record) has(name string) bool {
	rest, ok := strings.CutPrefix(name, r.Base+".data-")
	number, _, ok2 := strings.Cut(rest, "-of-")
	n, err := strconv.ParseInt(number, 10, 32)
	return ok && ok2 && err == nil && int64(r.First) <= n && n < int64(r.First)+int64(r.Count) && name == dataName(r.Base, int32(n), r.Shards)
}

// partName matches the names of a checkpoint's files.
var partName = regexp.MustCompile(`\.(index|data-[0-9]{5,}-of-[0-9]{5,})$`)

// leftovers returns the files of an interrupted save that no checkpoint needs; names are the files in the folder. Records are trusted only
// for names of checkpoint files in or below the folder, because anyone may have written them.
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
			committed = committed || i == 0 // no earlier index names the files of the first record
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
