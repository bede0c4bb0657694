package strings

import (
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// newStringSplit makes the kernel that splits strings at any of some bytes, or into single bytes.
func newStringSplit(c *kernels.Construction) (any, error) {
	skip, err := c.Attrs().Bool("skip_empty")
	if err != nil {
		skip = true // graphs of older clients do not have the attribute
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := needVectorAndScalar(ctx, "delimiter"); err != nil {
			return err
		}
		delimiters := ctx.Input(1).Strings()[0]
		return splitEach(ctx, func(s string) []string { return splitAtAny(s, delimiters, skip) })
	}), nil
}

// newStringSplitV2 makes the kernel that splits as Python's str.split does.
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
		return splitEach(ctx, func(s string) []string { return splitPython(s, separator, int(most)) })
	}), nil
}

func needVectorAndScalar(ctx *kernels.Context, name string) error {
	if in := ctx.Input(0); in.Rank() != 1 {
		return status.InvalidArgumentf("input must be a vector, got shape: %v", in.Shape())
	}
	return args.NeedScalar(ctx.Input(1), tensor.String, name+" must be a scalar, got shape: %v")
}

// splitEach makes a sparse matrix with a row of parts for each string.
func splitEach(ctx *kernels.Context, split func(string) []string) error {
	in := ctx.Input(0).Strings()
	var parts []string
	counts := make([]int, len(in))
	longest := 0
	m := ctx.Meter()
	defer m.Done()
	for i, s := range in {
		// A part takes a header in the list of its string and in that of all, which grow in steps.
		const header = 3 * 16
		if err := m.TakeMany(len(s)+1, header); err != nil {
			return err
		}
		p := split(s)
		m.Give(header * max(len(s)+1-len(p), 0))
		parts, counts[i] = append(parts, p...), len(p)
		longest = max(longest, len(p))
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
	for i, n := range counts {
		for j := range n {
			to[at], to[at+1] = int64(i), int64(j)
			at += 2
		}
	}
	return args.OutputInts(ctx, 2, tensor.Int64, []int64{int64(len(in)), int64(longest)})
}

// splitAtAny splits at each of the bytes of delimiters, between all bytes where there are none. An
// empty string has no parts.
func splitAtAny(s, delimiters string, skip bool) []string {
	if s == "" {
		return nil
	}
	var parts []string
	if delimiters == "" {
		for i := range len(s) {
			parts = append(parts, s[i:i+1])
		}
		return parts
	}
	for start, i := 0, 0; i <= len(s); i++ {
		if i == len(s) || strings.IndexByte(delimiters, s[i]) >= 0 {
			if i > start || !skip {
				parts = append(parts, s[start:i])
			}
			start = i + 1
		}
	}
	return parts
}

const asciiSpaces = " \t\n\v\f\r"

// splitPython splits at a separator, or between runs of spaces where it is empty, at most that often
// (negative: no limit).
func splitPython(s, separator string, most int) []string {
	if most == 0 {
		return []string{s}
	}
	if separator != "" {
		if most > 0 {
			most++
		}
		return strings.SplitN(s, separator, most)
	}
	var parts []string
	for s = strings.TrimLeft(s, asciiSpaces); s != ""; {
		end := strings.IndexAny(s, asciiSpaces)
		if end < 0 {
			end = len(s)
		}
		parts = append(parts, s[:end])
		s = strings.TrimLeft(s[end:], asciiSpaces)
		if len(parts) == most {
			// Also where nothing is left, as TensorFlow does.
			return append(parts, s)
		}
	}
	return parts
}
