package samehost

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// slots is how many ranges an Advert can lend at once.
	slots = 512
	// addressBits is the number of address bits in a ticket; the others are the number of its slot.
	addressBits = 48
	// recordName is the name of a record's mapping.
	recordName = "troupe-samehost"
	// recordPath is the mapping's name in /proc.
	recordPath = "/memfd:" + recordName + " (deleted)"
)

// record is what readers find at a claim's address. It has its own mapping, with a unique name. Data that a process
// received from others is in other mappings, so a peer cannot plant a forged record.
type record struct {
	proof proof
	slots [slots]slot
}

const (
	recordSize  = int(unsafe.Sizeof(record{}))
	slotsOffset = uint64(unsafe.Offsetof(record{}.slots))
	slotSize    = int(unsafe.Sizeof(slot{}))
)

// slot is a lent range; all zero if it is free.
type slot struct {
	address, size atomic.Uint64
}

// lent is a slot as read by another process.
type lent struct {
	address, size uint64
}

// newRecord returns an empty record and its mapping.
func newRecord() (r *record, mapping []byte, err error) {
	fd, err := unix.MemfdCreate(recordName, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(recordName, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("memfd_create: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := unix.Ftruncate(fd, int64(recordSize)); err != nil {
		return nil, nil, fmt.Errorf("ftruncate of %d bytes: %w", recordSize, err)
	}
	mapping, err = unix.Mmap(fd, 0, recordSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("mmap of %d bytes: %w", recordSize, err)
	}
	return (*record)(unsafe.Pointer(unsafe.SliceData(mapping))), mapping, nil
}

// hasRecord reports whether a process has the mapping of a record that begins at an address.
func hasRecord(pid uint32, address uint64) (bool, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(int(pid)) + "/maps")
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	return findRecord(f, address)
}

// findRecord looks for the mapping in a list that is sorted by address, as in /proc/PID/maps.
func findRecord(maps io.Reader, address uint64) (bool, error) {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		begin, end, rest, ok := mapped(lines.Text())
		switch {
		case !ok:
			return false, fmt.Errorf("/proc has the mapping %q", lines.Text())
		case begin < address:
			continue
		}
		return begin == address && end-begin >= uint64(recordSize) && strings.HasPrefix(rest, "rw-s ") && strings.HasSuffix(rest, " "+recordPath), nil
	}
	return false, lines.Err()
}

// mapped splits a line "BEGIN-END REST" of /proc/PID/maps.
func mapped(line string) (begin, end uint64, rest string, ok bool) {
	where, rest, _ := strings.Cut(line, " ")
	from, to, _ := strings.Cut(where, "-")
	begin, badBegin := strconv.ParseUint(from, 16, 64)
	end, badEnd := strconv.ParseUint(to, 16, 64)
	return begin, end, rest, badBegin == nil && badEnd == nil && begin <= end
}
