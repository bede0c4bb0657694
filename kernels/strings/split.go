package strings

import (
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// newStringSplit returns the kernel that splits strings at any of a set of bytes, or into single bytes.
func newStringSplit(c *kernels.Construction) (any, error) {
	skip, err := c.Attrs().Bool("skip_empty")
	if err != nil {
		skip = true // graphs of older clients lack the attribute
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := needVectorAndScalar(ctx, "delimiter"); err != nil {
			return err
		}
		delimiters := ctx.Input(1).Strings()[0]
		if delimiters == "" {
			return splitEach(ctx, splitBytes)
		}
		set := newByteSet(delimiters)
		return splitEach(ctx, func(parts []string, s string) []string { return set.split(parts, s, skip) })
	}), nil
}

// newStringSplitV2 returns the kernel that splits like Python's str.split.
func newStringSplitV2(c *kernels.Construction) (any, error) {
	most, err := c.Attrs().Int("maxsplit")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := needVectorAndScalar(ctx, "sep"); err != nil {
			return err
		}
		separator := ctx.Input(1).Strings()[0]
		return splitEach(ctx, func(parts []string, s string) []string { return splitPython(parts, s, separator, int(most)) })
	}), nil
}

func needVectorAndScalar(ctx *kernels.Context, name string) error {
	if in := ctx.Input(0); in.Rank() != 1 {
		return status.InvalidArgumentf("input must be a vector, got shape: %v", in.Shape())
	}
	return args.NeedScalar(ctx.Input(1), tensor.String, name+" must be a scalar, got shape: %v")
}

// splitEach returns a sparse matrix with a row of parts for each string. split appends the parts of one string.
func splitEach(ctx *kernels.Context, split func(parts []string, s string) []string) error {
	in := ctx.Input(0).Strings()
	m := ctx.Meter()
	defer m.Done()
	ends, err := kernels.Scratch[int](&m, len(in)) // of the parts of each string
	if err != nil {
		return err
	}
	var parts []string
	longest := 0
	for i, s := range in {
		// A part needs a header in the list, which grows in steps.
		const header = 3 * 16
		if err := m.TakeMany(len(s)+1, header); err != nil {
			return err
		}
		before := len(parts)
		parts = split(parts, s)
		n := len(parts) - before
		m.Give(header * max(len(s)+1-n, 0))
		ends[i] = len(parts)
		longest = max(longest, n)
	}
	indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(len(parts)), 2})
	if err != nil {
		return err
	}
	values, err := ctx.Allocate(1, tensor.String, tensor.Shape{int64(len(parts))})
	if err != nil {
		return err
	}
	copy(values.Strings(), parts)
	at, to := 0, tensor.Of[int64](indices)
	for i, end := range ends {
		for j := 0; at < end; j++ {
			to[2*at], to[2*at+1] = int64(i), int64(j)
			at++
		}
	}
	return args.OutputInts(ctx, 2, tensor.Int64, []int64{int64(len(in)), int64(longest)})
}

// byteSet is a set of bytes.
type byteSet [256]bool

func newByteSet(bytes string) *byteSet {
	set := &byteSet{}
	for i := range len(bytes) {
		set[bytes[i]] = true
	}
	return set
}

// split appends the text between the bytes of the set. An empty string has no parts.
func (set *byteSet) split(parts []string, s string, skip bool) []string {
	if s == "" {
		return parts
	}
	start := 0
	for i := range len(s) {
		if set[s[i]] {
			if i > start || !skip {
				parts = append(parts, s[start:i])
			}
			start = i + 1
		}
	}
	if start < len(s) || !skip {
		parts = append(parts, s[start:])
	}
	return parts
}

// splitBytes appends the bytes of a string.
func splitBytes(parts []string, s string) []string {
	for i := range len(s) {
		parts = append(parts, s[i:i+1])
	}
	return parts
}

var spaces = newByteSet(" \t\n\v\f\r")

// trimmed returns s without its leading bytes from the set.
func (set *byteSet) trimmed(s string) string {
	for len(s) > 0 && set[s[0]] {
		s = s[1:]
	}
	return s
}

// splitPython splits at a separator, or at runs of spaces if it is empty, at most most times (negative: no limit).
func splitPython(parts []string, s, separator string, most int) []string {
	if most == 0 {
		return append(parts, s)
	}
	if separator != "" {
		for n := 0; n != most; n++ {
			before, after, found := strings.Cut(s, separator)
			if !found {
				break
			}
			parts, s = append(parts, before), after
		}
		return append(parts, s)
	}
	n := 0
	for s = spaces.trimmed(s); s != ""; {
		end := 0
		for end < len(s) && !spaces[s[end]] {
			end++
		}
		parts = append(parts, s[:end])
		s = spaces.trimmed(s[end:])
		if n++; n == most {
			// Even if nothing is left, as in TensorFlow.
			return append(parts, s)
		}
	}
	return parts
}
