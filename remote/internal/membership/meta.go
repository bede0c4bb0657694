package membership

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/hashicorp/memberlist"

	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
)

// meta is what a node announces about itself in its gossip. It has at most 512 bytes; devices that do not fit are omitted and learned over
// a link.
type meta struct {
	boot    uint64
	spec    string // hash
	leaving bool
	devices []device.Attributes
}

const (
	metaVersion = 1
	flagLeaving = 1 << 0
	hashBytes   = 16
	// maxDevice bounds the bytes of a device in a malformed message.
	maxDevice = 64
)

// encode writes, after the version, the flags, the boot id, the spec hash, and for each device that fits its type, index, memory limit and
// incarnation.
func (m meta) encode(task string) []byte {
	b := []byte{metaVersion, 0}
	if m.leaving {
		b[1] |= flagLeaving
	}
	b = binary.LittleEndian.AppendUint64(b, m.boot)
	hash, err := hex.DecodeString(m.spec)
	if err != nil || len(hash) != hashBytes {
		hash = make([]byte, hashBytes) // matches no spec
	}
	b = append(b, hash...)
	for _, d := range m.devices {
		kind, index, ok := splitDevice(task, d.Name)
		if !ok {
			continue
		}
		n := len(b)
		b = binary.AppendUvarint(b, uint64(len(kind)))
		b = append(b, kind...)
		b = binary.AppendUvarint(b, index)
		b = binary.AppendUvarint(b, uint64(max(d.MemoryLimit, 0)))
		b = binary.LittleEndian.AppendUint64(b, d.Incarnation)
		if len(b) > memberlist.MetaMaxSize {
			return b[:n]
		}
	}
	return b
}

// splitDevice splits the full name of one of the task's devices.
func splitDevice(task, name string) (kind string, index uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, task+"/device:")
	if !ok {
		return "", 0, false
	}
	kind, digits, ok := strings.Cut(rest, ":")
	index, err := strconv.ParseUint(digits, 10, 31)
	return kind, index, ok && err == nil && kind != "" && len(kind) <= maxDevice
}

func decodeMeta(task string, b []byte) (meta, error) {
	if len(b) < 2+8+hashBytes || b[0] != metaVersion {
		return meta{}, status.InvalidArgumentf("The gossip of %s is not that of a server of this version.", task)
	}
	m := meta{leaving: b[1]&flagLeaving != 0, boot: binary.LittleEndian.Uint64(b[2:]), spec: hex.EncodeToString(b[10 : 10+hashBytes])}
	b = b[10+hashBytes:]
	bad := false
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			bad, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	take := func(n uint64) []byte {
		if uint64(len(b)) < n {
			bad, b = true, nil
			return make([]byte, min(n, maxDevice))
		}
		part := b[:n]
		b = b[n:]
		return part
	}
	for len(b) > 0 {
		size := number()
		if size > maxDevice {
			bad = true
			break
		}
		kind := string(take(size))
		index := number()
		m.devices = append(m.devices, device.Attributes{Type: kind, Name: task + "/device:" + kind + ":" + strconv.FormatUint(index, 10),
			MemoryLimit: int64(number()), Incarnation: binary.LittleEndian.Uint64(take(8))})
	}
	if bad {
		return meta{}, status.InvalidArgumentf("The gossip of %s is malformed.", task)
	}
	return m, nil
}
