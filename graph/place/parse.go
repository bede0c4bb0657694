package place

import (
	"math"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// Parse parses a device name in which parts may be missing or "*": /job:ps/task:1, /device:GPU:*, the legacy forms /cpu:0 and /gpu:0, ""
// and "/". Parts may come in any order and more than once; the last one counts. Types are converted to upper case. Anything else is
// INVALID_ARGUMENT.
func Parse(name string) (Spec, error) {
	s := Open()
	rest := name
	if rest == "/" {
		return s, nil
	}
	for rest != "" {
		var ok bool
		if rest, ok = s.parsePart(rest); !ok {
			return Open(), status.InvalidArgumentf("Malformed device specification '%s'", name)
		}
	}
	return s, nil
}

// parsePart cuts one part, such as /task:1, off the front of name.
func (s *Spec) parsePart(name string) (rest string, ok bool) {
	if !strings.HasPrefix(name, "/") {
		return name, false
	}
	part, value, found := strings.Cut(name[1:], ":")
	if !found {
		return name, false
	}
	if end := strings.IndexByte(value, '/'); end >= 0 {
		value, rest = value[:end], value[end:]
	}
	switch part {
	case "job":
		s.Job, ok = parseName(value)
	case "replica":
		s.Replica, ok = parseNumber(value)
	case "task":
		s.Task, ok = parseNumber(value)
	case "device":
		ok = s.parseDevice(value)
	case "cpu", "CPU", "gpu", "GPU":
		s.Type = strings.ToUpper(part)
		s.Index, ok = parseNumber(value)
	}
	return rest, ok
}

// parseDevice parses TYPE or TYPE:INDEX.
func (s *Spec) parseDevice(value string) (ok bool) {
	kind, index, found := strings.Cut(value, ":")
	if s.Type, ok = parseName(kind); !ok {
		return false
	}
	s.Type = strings.ToUpper(s.Type)
	if !found {
		s.Index = -1
		return true
	}
	s.Index, ok = parseNumber(index)
	return ok
}

// parseName parses the name of a job or type: a letter, followed by letters, digits and underscores.
func parseName(v string) (string, bool) {
	if v == "*" {
		return "", true
	}
	if v == "" || !isLetter(v[0]) {
		return "", false
	}
	for i := range len(v) {
		if !isLetter(v[i]) && !isDigit(v[i]) && v[i] != '_' {
			return "", false
		}
	}
	return v, true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// parseNumber parses a replica, task or index: decimal digits, with a value that fits into 31 bits.
func parseNumber(v string) (int, bool) {
	if v == "*" {
		return -1, true
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || n > math.MaxInt32 {
		return -1, false
	}
	return int(n), true
}

// Canonical returns the full canonical name of a device given by a partial name, in legacy form or without the leading "/device:" (CPU:0).
// Missing parts are taken from base, which must be full.
func Canonical(name, base string) (string, error) {
	b, err := Parse(base)
	if err != nil {
		return "", status.InvalidArgumentf("Could not parse basename: %s into a device specification.", base)
	}
	if !b.IsFull() {
		return "", status.InvalidArgumentf("Basename: %s should be fully specified.", base)
	}
	s := Open()
	if kind, _, local := strings.Cut(name, ":"); local && !strings.HasPrefix(name, "/") && kind != "*" {
		if !s.parseDevice(name) || s.Index < 0 {
			return "", status.InvalidArgumentf("Could not parse %s into a device specification.", name)
		}
	} else if s, err = Parse(name); err != nil {
		return "", status.InvalidArgumentf("Could not parse %s into a device specification.", name)
	}
	return b.Override(s).String(), nil
}
