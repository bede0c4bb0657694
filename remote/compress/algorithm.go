package compress

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// Algorithm is a way to compress and how hard to try. It is sent as one byte: the level in the lowest two bits, the family above. The zero
// value compresses nothing.
type Algorithm byte

// None does not compress.
const None Algorithm = 0

// MaxPiece is the maximum number of bytes of a tensor that are compressed as one piece.
const MaxPiece = 1 << 20

// The families, and the levels as gRPC's grpc_compression_level counts them.
const (
	familyNone    = 0
	familyDeflate = 1
	familyZstd    = 2
	familyS2      = 3

	lowest  = 1
	highest = 3
)

// families are the names that Parse accepts. A piece has no header, so gzip, which is deflate with a header, is the same as deflate. S2 is
// an extension of Snappy.
var families = map[string]Algorithm{
	"none":    familyNone,
	"deflate": familyDeflate, "gzip": familyDeflate,
	"zstd": familyZstd,
	"s2":   familyS2, "snappy": familyS2,
}

// Names returns the names that Parse accepts, sorted.
func Names() []string {
	names := make([]string, 0, len(families))
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Parse reads compression_algorithm and compression_level of a ConfigProto's rpc_options: an algorithm's name, "" or "none" for none, and a
// level from 1 (fast) to 3 (small). Level 0 means 1: it is the level of a ConfigProto without one, and gRPC uses the level only on servers,
// so a channel of TensorFlow's compresses at any level. Other names and levels are INVALID_ARGUMENT.
func Parse(name string, level int) (Algorithm, error) {
	family, ok := families[name]
	switch {
	case name == "" || ok && family == familyNone:
		return None, nil
	case !ok:
		return None, status.InvalidArgumentf("rpc_options.compression_algorithm is %q; the known ones are %s", name, strings.Join(Names(), ", "))
	case level < 0 || level > highest:
		return None, status.InvalidArgumentf("rpc_options.compression_level is %d; it must be from 0 to %d", level, highest)
	}
	return family<<2 | Algorithm(max(level, lowest)), nil
}

// Valid reports whether a byte received over the wire is an algorithm of this package.
func (a Algorithm) Valid() bool {
	return a == None || a.family() >= familyDeflate && a.family() <= familyS2 && a.level() >= lowest
}

func (a Algorithm) family() byte { return byte(a >> 2) }
func (a Algorithm) level() int   { return int(a & 3) }

// String returns a name that Parse accepts and the level, such as zstd:1.
func (a Algorithm) String() string {
	if a == None {
		return "none"
	}
	for _, name := range Names() { // of a family's names, the first is the format's own
		if byte(families[name]) == a.family() {
			return name + ":" + string('0'+byte(a.level()))
		}
	}
	return "unknown"
}
