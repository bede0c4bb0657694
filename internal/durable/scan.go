package durable

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// Pebble takes the first damaged chunk of a log for its end, unless a later block proves that it was synced. The scan finds all damage before
// the last record.

// The format of pebble's logs: blocks of chunks, each with a checksum, a length, and an encoding. In a WAL the log's number follows, and
// then, except in the first WAL of a database, the offset up to which the log was synced. See pebble's package record.
const (
	logBlock       = 32 << 10
	manifestHeader = 7
	walHeader      = 11
	syncHeader     = 19
)

// The encodings of a chunk: of one that is a whole record, or the first, a middle or the last part of one, and of which header it has.
const (
	wholeChunk = iota
	firstChunk
	middleChunk
	lastChunk

	manifestChunks = 1
	walChunks      = 5
	syncChunks     = 9
)

// logFile is a WAL or a manifest.
type logFile struct {
	data   []byte
	wal    bool
	number uint32 // of a WAL
}

// parse returns the part and the size of the header for an encoding.
func (l logFile) parse(encoding byte) (part, header int, ok bool) {
	for _, f := range []struct {
		wal           bool
		first, header int
	}{{false, manifestChunks, manifestHeader}, {true, walChunks, walHeader}, {true, syncChunks, syncHeader}} {
		if part = int(encoding) - f.first; f.wal == l.wal && part >= wholeChunk && part <= lastChunk {
			return part, f.header, true
		}
	}
	return 0, 0, false
}

// chunk returns the part and the payload of the valid chunk at an offset, and the offset of what follows it; or ok is false.
func (l logFile) chunk(at int) (part int, payload []byte, next int, ok bool) {
	b := l.data[at:min(len(l.data), blockEnd(at))]
	if len(b) < manifestHeader {
		return 0, nil, 0, false
	}
	part, header, ok := l.parse(b[6])
	size := header + int(binary.LittleEndian.Uint16(b[4:]))
	if !ok || size > len(b) || l.wal && binary.LittleEndian.Uint32(b[7:]) != l.number {
		return 0, nil, 0, false
	}
	c := crc32.Checksum(b[6:size], castagnoli)
	if c>>15|c<<17 != binary.LittleEndian.Uint32(b)-0xa282ead8 {
		return 0, nil, 0, false
	}
	return part, b[header:size], at + size, true
}

func blockEnd(at int) int { return (at/logBlock + 1) * logBlock }

// chunks calls visit with the chunks up to the first that is not valid, and returns its offset.
func (l logFile) chunks(visit func(part int, payload []byte)) int {
	at := 0
	for at < len(l.data) {
		part, payload, next, ok := l.chunk(at)
		if rest := l.data[at:min(len(l.data), blockEnd(at))]; !ok && len(rest) < syncHeader && blockEnd(at) < len(l.data) && zero(rest) {
			next, ok, payload, part = blockEnd(at), true, nil, middleChunk // too little was left of the block
		}
		if !ok {
			break
		}
		visit(part, payload)
		at = next
	}
	return at
}

func zero(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }

// proof returns the offset of a record that was written after what is at the end, or 0. A record is synced before the next is written, so
// that the end is damaged then.
func (l logFile) proof(end int) int {
	for at := end + 1; at < len(l.data); at++ {
		if part, _, _, ok := l.chunk(at); ok && (part == wholeChunk || part == firstChunk) {
			return at
		}
	}
	return 0
}

// scan looks for damage of the logs that pebble would take for their end.
func scan(f vfs.FS, dir string) ([]Problem, error) {
	names, err := f.List(dir)
	if err != nil {
		return nil, err
	}
	var found []Problem
	for _, n := range names {
		number, _, isWAL := wal.ParseLogFilename(n)
		if !isWAL && !currentManifest(names, n) {
			continue
		}
		path := f.PathJoin(dir, n)
		data, err := readFile(f, path)
		if err != nil {
			return nil, err
		}
		l := logFile{data, isWAL, uint32(number)}
		end := l.chunks(func(int, []byte) {})
		if at := l.proof(end); at > 0 {
			found = append(found, Problem{path, fmt.Sprintf("the record at offset %d is damaged, but was on disk when the one at %d was written", end, at)})
		}
	}
	return found, nil
}

// currentManifest reports whether a file is the manifest that the newest marker names.
func currentManifest(names []string, name string) bool {
	if !strings.HasPrefix(name, "MANIFEST-") {
		return false
	}
	var iteration uint64
	var current string
	for _, n := range names {
		var i uint64
		var value string
		if _, err := fmt.Sscanf(n, "marker.manifest.%d.%s", &i, &value); err == nil && (current == "" || i > iteration) {
			iteration, current = i, value
		}
	}
	return name == current
}

// loggedBatches returns the numbers of the batches in the WALs, sorted.
func loggedBatches(f vfs.FS, dir string) ([]uint64, error) {
	names, err := f.List(dir)
	if err != nil {
		return nil, err
	}
	var all []uint64
	for _, n := range names {
		number, _, ok := wal.ParseLogFilename(n)
		if !ok {
			continue
		}
		data, err := readFile(f, f.PathJoin(dir, n))
		if err != nil {
			return nil, err
		}
		all = logFile{data, true, uint32(number)}.batches(all)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// batches appends the numbers of a WAL's batches.
func (l logFile) batches(all []uint64) []uint64 {
	var begin []byte // of a record: as much as its number needs
	l.chunks(func(part int, payload []byte) {
		if part == wholeChunk || part == firstChunk {
			begin = begin[:0]
		}
		begin = append(begin, payload[:min(len(payload), 2*batchrepr.HeaderLen+16)]...)
		if part == wholeChunk || part == lastChunk {
			if n, ok := batchNumber(begin); ok {
				all = append(all, n)
			}
		}
	})
	return all
}

// batchNumber returns the number of the batch, of which it needs the beginning. Those that the store did not number, it ignores.
func batchNumber(begin []byte) (uint64, bool) {
	r := batchrepr.Read(begin)
	kind, key, value, ok, err := r.Next()
	if err != nil || !ok || kind != pebble.InternalKeyKindSet || string(key) != metaBatches || len(value) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(value), true
}

// checkBatches checks that no batch is missing between those in the tables and those in the WALs, which happens if the end of a manifest is
// lost. It returns what is wrong, or "".
func checkBatches(f vfs.FS, dir string, db *pebble.DB) (string, error) {
	logged, err := loggedBatches(f, dir)
	if err != nil {
		return "", err
	}
	flushed, err := flushedBatches(db)
	if err != nil {
		return "", err
	}
	for _, n := range logged {
		if n > flushed+1 {
			return fmt.Sprintf("the batches after %d and before %d are lost", flushed, n), nil
		}
		flushed = max(flushed, n)
	}
	return "", nil
}

// flushedBatches returns the number of the last batch in the tables of a database, without the WALs.
func flushedBatches(db *pebble.DB) (n uint64, err error) {
	it, err := db.NewIter(&pebble.IterOptions{OnlyReadGuaranteedDurable: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, it.Close()) }()
	if it.SeekGE([]byte(metaBatches)) && string(it.Key()) == metaBatches {
		v, err := it.ValueAndErr()
		if err != nil || len(v) != 8 {
			return 0, cmp.Or(err, errors.New("malformed record "+metaBatches))
		}
		n = binary.BigEndian.Uint64(v)
	}
	return n, it.Error()
}
