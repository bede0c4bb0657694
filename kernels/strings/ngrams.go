package strings

import (
	"math"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// ngrams returns runs of neighbouring strings, of several widths, from each row of a ragged matrix.
type ngrams struct {
	separator, left, right string
	widths                 []int
	pad                    int // pads at either end of a row, at most width-1; negative: width-1
	keepShort              bool
}

func newStringNGrams(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	var k ngrams
	k.separator, k.left, k.right = a.Str("separator"), a.Str("left_pad"), a.Str("right_pad")
	pad := a.Int("pad_width")
	k.keepShort = a.Bool("preserve_short_sequences")
	widths := a.IntList("ngram_widths")
	if err := a.Err(); err != nil {
		return nil, err
	}
	for _, w := range append(widths, pad) {
		if int64(int32(w)) != w {
			return nil, status.InvalidArgumentf("An attribute of StringNGrams has value %d out of range for an int32", w)
		}
	}
	k.pad = int(pad)
	for _, w := range widths {
		k.widths = append(k.widths, int(w))
	}
	return k, nil
}

// padding returns the number of pads at either end of a row for ngrams of a width.
func (k ngrams) padding(width int) int {
	if k.pad < 0 {
		return width - 1
	}
	return min(k.pad, width-1)
}

// count returns the number of ngrams of a width in a row of length strings.
func (k ngrams) count(length, width int) (int, error) {
	pad := k.padding(width)
	if pad > math.MaxInt32/2-length {
		return 0, status.InvalidArgumentf("Pad width could lead to integer overflow, got pad_width = %d", pad)
	}
	return max(0, length+2*pad-width+1), nil
}

// Compute outputs the ngrams of all rows, and the row splits.
func (k ngrams) Compute(ctx *kernels.Context) error {
	for _, w := range k.widths {
		if w <= 0 {
			return status.InvalidArgumentf("ngram_widths must contain positive values")
		}
	}
	data := ctx.Input(0)
	splits, err := ctx.Ints(1)
	if err != nil {
		return err
	}
	if err := k.check(splits, data.Len()); err != nil {
		return err
	}
	ends := make([]int64, len(splits))
	total := int64(0)
	if data.Len() > 0 {
		for i := 1; i < len(splits); i++ {
			n, err := k.row(int(splits[i] - splits[i-1]))
			if err != nil {
				return err
			}
			total += n
			ends[i] = total
		}
	}
	if total > maxNGrams/16 {
		return status.Errorf(status.ResourceExhausted, "OOM when making %d ngrams", total)
	}
	if err := args.OutputIntsOf(ctx, 1, ctx.Input(1).DType(), ctx.Input(1).Shape(), ends); err != nil {
		return err
	}
	if data.Len() == 0 || len(splits) == 0 {
		_, err := ctx.Allocate(0, tensor.String, data.Shape())
		return err
	}
	out, err := ctx.Allocate(0, tensor.String, tensor.Shape{total})
	if err != nil {
		return err
	}
	w := ngramWriter{ngrams: k, out: out.Strings(), meter: ctx.Meter()}
	defer w.meter.Done()
	for i := 1; i < len(splits); i++ {
		if err := w.row(data.Strings()[splits[i-1]:splits[i]]); err != nil {
			return err
		}
	}
	return nil
}

// check checks that the splits partition all the data into rows.
func (k ngrams) check(splits []int64, size int) error {
	if len(splits) == 0 {
		return nil
	}
	last := splits[0]
	if last != 0 {
		return status.InvalidArgumentf("First split value must be 0, got %d", last)
	}
	for _, s := range splits[1:] {
		if s < last || s > int64(size) {
			return status.InvalidArgumentf("Invalid split value %d, must be in [%d, %d]", s, last, size)
		}
		last = s
	}
	if last != int64(size) {
		return status.InvalidArgumentf("Last split value must be data size. Expected %d, got %d", size, last)
	}
	return nil
}

// row returns the number of ngrams of all widths in a row of length strings.
func (k ngrams) row(length int) (total int64, err error) {
	for _, width := range k.widths {
		n, err := k.count(length, width)
		if err != nil {
			return 0, err
		}
		total += int64(n)
	}
	if total == 0 && k.keepShort && length > 0 {
		total = 1
	}
	return total, nil
}

// maxNGrams bounds the bytes of the ngrams of one execution.
const maxNGrams = 1 << 31

// ngramWriter writes ngrams one after the other.
type ngramWriter struct {
	ngrams
	out   []string
	bytes int
	meter kernels.Meter
}

func (w *ngramWriter) row(data []string) error {
	before := len(w.out)
	for _, width := range w.widths {
		n, err := w.count(len(data), width)
		if err != nil {
			return err
		}
		if err := w.write(data, n, width); err != nil {
			return err
		}
	}
	if !w.keepShort || len(w.out) < before || len(data) == 0 {
		return nil
	}
	if w.pad < 0 {
		return status.InvalidArgumentf("Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are not provided, got %d", w.pad)
	}
	return w.write(data, 1, len(data)+2*w.pad)
}

// write writes the n ngrams of a width.
func (w *ngramWriter) write(data []string, n, width int) error {
	pad := w.padding(width)
	for i := range n {
		left, right := max(0, pad-i), max(0, pad-(n-i-1))
		tokens := data[max(0, i-pad):][:max(0, width-left-right)]
		size := left*len(w.left) + right*len(w.right) + (left+len(tokens)+right-1)*len(w.separator)
		for _, t := range tokens {
			size += len(t)
		}
		if w.bytes += size; w.bytes > maxNGrams {
			return status.Errorf(status.ResourceExhausted, "OOM when making ngrams of more than %d bytes", maxNGrams)
		}
		if err := w.meter.Take(size); err != nil {
			return err
		}
		var b strings.Builder
		b.Grow(size)
		for j := range left + len(tokens) + right {
			if j > 0 {
				b.WriteString(w.separator)
			}
			switch {
			case j < left:
				b.WriteString(w.left)
			case j < left+len(tokens):
				b.WriteString(tokens[j-left])
			default:
				b.WriteString(w.right)
			}
		}
		w.out[0], w.out = b.String(), w.out[1:]
	}
	return nil
}
