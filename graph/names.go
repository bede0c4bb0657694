package graph

import (
	"maps"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// names finds nodes by name. It is immutable and shares what it can with the one that it was extended from: it is a few maps, each at
// least twice as large as the next. Adding n names one by one thus costs O(n log n) map entries at worst.
type names struct{ layers []map[string]*Node }

func (x *names) get(name string) *Node {
	if x == nil {
		return nil
	}
	for _, m := range x.layers {
		if n, ok := m[name]; ok {
			return n
		}
	}
	return nil
}

// with returns x with the nodes of m, none of which is in x. It takes ownership of m.
func (x *names) with(m map[string]*Node) *names {
	if len(m) == 0 {
		return x
	}
	var layers []map[string]*Node
	if x != nil {
		layers = x.layers
	}
	for len(layers) > 0 && len(layers[len(layers)-1]) < 2*len(m) {
		last := layers[len(layers)-1]
		layers = layers[:len(layers)-1]
		both := make(map[string]*Node, len(last)+len(m))
		maps.Copy(both, last)
		maps.Copy(both, m)
		m = both
	}
	return &names{append(layers[:len(layers):len(layers)], m)}
}

// Classes of bytes in names.
const (
	nameStart byte = 1 << iota // a letter, digit or dot
	namePart                   // that or one of -/_
	nameDigit
)

var nameBytes = func() (t [256]byte) {
	for c := range 256 {
		switch {
		case c >= '0' && c <= '9':
			t[c] = nameStart | namePart | nameDigit
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '.':
			t[c] = nameStart | namePart
		case c == '-', c == '/', c == '_':
			t[c] = namePart
		}
	}
	return t
}()

// validName reports whether s is a valid node name: parts joined by '>', each of letters, digits and ._-/ with a letter, digit or dot
// first. The runtime's own nodes may also start with '_'.
func validName(s string, internal bool) bool {
	first := true
	for i := range len(s) {
		c := s[i]
		switch {
		case first:
			if nameBytes[c]&nameStart == 0 && (i > 0 || !internal || c != '_') {
				return false
			}
			first = false
		case c == '>':
			first = true
		case internal && c == ':': // the debugger's nodes are named after the tensors that they watch
		case nameBytes[c]&namePart == 0:
			return false
		}
	}
	return !first
}

// endpoint is a parsed node input: an output of a node, or a node that must run first.
type endpoint struct {
	node    string
	index   int // clipped to maxIndex
	control bool
}

// maxIndex stands for all output indices that no node has.
const maxIndex = 1 << 30

// parseInput parses "name", "name:index" or "^name". It does not check the name: an invalid one names no node. Only names of the runtime's
// own nodes may contain colons.
func parseInput(s string, internal bool) (e endpoint, ok bool) {
	if name, is := strings.CutPrefix(s, "^"); is {
		return endpoint{name, 0, true}, name != "" && (internal || strings.IndexByte(name, ':') < 0)
	}
	i := len(s)
	for i > 0 && nameBytes[s[i-1]]&nameDigit != 0 {
		i--
	}
	if i == 0 || s[i-1] != ':' {
		return endpoint{node: s}, s != "" && strings.IndexByte(s, ':') < 0
	}
	digits := s[i:]
	if digits == "" || digits[0] == '0' && len(digits) > 1 {
		return e, false
	}
	e.node, e.index = s[:i-1], parseIndex(digits)
	return e, e.node != "" && strings.IndexByte(e.node, ':') < 0
}

// parseIndex parses decimal digits, clipped to maxIndex.
func parseIndex(digits string) int {
	n := 0
	for _, c := range []byte(digits) {
		if n = n*10 + int(c-'0'); n >= maxIndex {
			return maxIndex
		}
	}
	return n
}

// ParseTensorName splits "name:index"; a name without an index means output 0. It accepts the forms that clients use in feeds, fetches and
// targets. A control input ("^name") is INVALID_ARGUMENT.
func ParseTensorName(s string) (node string, index int, err error) {
	i := len(s)
	for i > 0 && nameBytes[s[i-1]]&nameDigit != 0 {
		i--
	}
	if i > 1 && i < len(s) && s[i-1] == ':' {
		node, index = s[:i-1], parseIndex(s[i:])
	} else {
		node = s
	}
	if node == "" || node[0] == '^' {
		return "", 0, status.InvalidArgumentf("Tensor name '%s' is not of the form name:index", s)
	}
	return node, index, nil
}
