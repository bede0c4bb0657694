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
	// The functions of the task's CPUs, which all have the same. Neither flag means UnknownFunctions.
	flagFunctions   = 1 << 1
	flagNoFunctions = 1 << 2
	hashBytes       = 16
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
	switch functionsOf(m.devices) {
	case device.HasFunctions:
		b[1] |= flagFunctions
	case device.NoFunctions:
		b[1] |= flagNoFunctions
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

// functionsOf returns the functions of a task's CPUs.
func functionsOf(all []device.Attributes) device.Functions {
	for _, d := range all {
		if d.Type == cpu {
			return d.Functions
		}
	}
	return device.UnknownFunctions
}

// functionsOn returns the functions of a device, given those of its task's CPUs: no other device calls any.
func functionsOn(kind string, cpus device.Functions) device.Functions {
	if kind != cpu {
		return device.NoFunctions
	}
	return cpus
}

// cpu is the type of the devices that call functions of programs.
const cpu = "CPU"

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
	functions := device.UnknownFunctions
	switch b[1] & (flagFunctions | flagNoFunctions) {
	case flagFunctions:
		functions = device.HasFunctions
	case flagNoFunctions:
		functions = device.NoFunctions
	}
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
			MemoryLimit: int64(number()), Incarnation: binary.LittleEndian.Uint64(take(8)), Functions: functionsOn(kind, functions)})
	}
	if bad {
		return meta{}, status.InvalidArgumentf("The gossip of %s is malformed.", task)
	}
	return m, nil
}
