package sparse

import (
	"math"
	"strconv"
	"strings"

	"github.com/dchest/siphash"
	"github.com/dgryski/go-farm"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// column is a list of features for each row of a batch. The features are a vector of strings or int64s.
type column struct {
	values *tensor.Tensor
	splits []int64 // row r has the features from splits[r] to splits[r+1]; if nil, each row has width features
	width  int64
}

// row returns where the features of row r begin and end.
func (c column) row(r int) (lo, hi int64) {
	if c.splits == nil {
		return int64(r) * c.width, int64(r+1) * c.width
	}
	return c.splits[r], c.splits[r+1]
}

// crosses are the combinations of features of the same row, one from each column.
type crosses struct {
	columns []column
	starts  []int64 // output position where each row's combinations begin, and where the last ones end
	most    int64   // maximum number of combinations in a row
}

// newCrosses counts the combinations. The columns must fit the number of rows.
func newCrosses(ctx *kernels.Context, m *kernels.Meter, columns []column, rows int64) (*crosses, error) {
	starts, err := rowEnds(m, rows)
	if err != nil {
		return nil, err
	}
	c := &crosses{columns: columns, starts: starts}
	end := ctx.Lookout()
	for r := range int(rows) {
		if err := end.After(columnTime * (1 + len(columns))); err != nil {
			return nil, err
		}
		n, fits := int64(1), true
		for _, column := range columns {
			lo, hi := column.row(r)
			if lo == hi {
				n, fits = 0, true
				break
			}
			product, ok := shapes.MulSize(n, hi-lo)
			n, fits = product, fits && ok
		}
		total, ok := shapes.AddSize(starts[r], n)
		if !fits || !ok {
			return nil, status.Errorf(status.ResourceExhausted, "the features of %d columns have more crosses than fit into a tensor", len(columns))
		}
		starts[r+1], c.most = total, max(c.most, n)
	}
	return c, nil
}

// columnTime is the time in nanoseconds to look up a row of a column.
const columnTime = 8

// rowEnds allocates a zeroed list for where each row begins, and where the last one ends.
func rowEnds(m *kernels.Meter, rows int64) ([]int64, error) {
	if rows == math.MaxInt64 {
		return nil, status.Errorf(status.ResourceExhausted, "OOM when allocating the ends of %d rows", rows)
	}
	return kernels.Scratch[int64](m, int(rows)+1)
}

func (c *crosses) rows() int { return len(c.starts) - 1 }

func (c *crosses) total() int64 { return c.starts[c.rows()] }

// each calls visit with each combination of rows lo to hi: its number among all, and the positions of its features. The last column varies
// fastest.
func (c *crosses) each(lo, hi int, visit func(n int64, at []int64)) {
	at := make([]int64, len(c.columns))
	for r := lo; r < hi; r++ {
		for i, column := range c.columns {
			at[i], _ = column.row(r)
		}
		for n := c.starts[r]; n < c.starts[r+1]; n++ {
			visit(n, at)
			for i := len(at) - 1; i >= 0; i-- {
				first, end := c.columns[i].row(r)
				at[i]++
				if at[i] < end {
					break
				}
				at[i] = first
			}
		}
	}
}

// crossGrain is the minimum number of rows that are worth another goroutine.
const crossGrain = 16

// hashing maps a combination of features to a number.
type hashing struct {
	features []func(i int64) uint64 // the hash of feature i of each column
	keyed    bool                   // hashes are combined with the key; otherwise with the first feature's
	key      uint64
	buckets  int64 // zero or less means none
}

func (h *hashing) of(at []int64) int64 {
	sum, rest := h.key, h.features
	if !h.keyed {
		sum, rest, at = rest[0](at[0]), rest[1:], at[1:]
	}
	for i, feature := range rest {
		sum = joinFingerprints(sum, feature(at[i]))
	}
	if h.buckets > 0 {
		return int64(sum % uint64(h.buckets))
	}
	return int64(sum % math.MaxInt64)
}

// hash writes the hash of each combination.
func (c *crosses) hash(ctx *kernels.Context, out *tensor.Tensor, h *hashing) {
	dst := tensor.Of[int64](out)
	ctx.Parallel(c.rows(), crossGrain, func(lo, hi int) {
		c.each(lo, hi, func(n int64, at []int64) { dst[n] = h.of(at) })
	})
}

// join writes the features of each combination, with a separator between them.
func (c *crosses) join(ctx *kernels.Context, m *kernels.Meter, out *tensor.Tensor, separator string) error {
	texts := make([]func(i int64) string, len(c.columns))
	for i, column := range c.columns {
		texts[i] = featureTexts[column.values.DType()](column.values)
	}
	for r := range c.rows() {
		if err := m.TakeMany(int(c.starts[r+1]-c.starts[r]), len(separator)*(len(texts)-1)); err != nil {
			return err
		}
		for i, column := range c.columns {
			lo, hi := column.row(r)
			size := 0
			for at := lo; at < hi; at++ {
				size += len(texts[i](at))
			}
			// Each feature is in as many combinations as the other columns of its row have.
			if n := c.starts[r+1] - c.starts[r]; n > 0 {
				if err := m.TakeMany(int(n/(hi-lo)), size); err != nil {
					return err
				}
			}
		}
	}
	dst := out.Strings()
	ctx.Parallel(c.rows(), crossGrain, func(lo, hi int) {
		parts := make([]string, len(texts))
		c.each(lo, hi, func(n int64, at []int64) {
			for i, text := range texts {
				parts[i] = text(at[i])
			}
			dst[n] = strings.Join(parts, separator)
		})
	})
	return nil
}

// featureTexts return the features of a column as strings, by type.
var featureTexts = map[tensor.DType]func(values *tensor.Tensor) func(i int64) string{
	tensor.String: func(values *tensor.Tensor) func(i int64) string {
		list := values.Strings()
		return func(i int64) string { return list[i] }
	},
	tensor.Int64: func(values *tensor.Tensor) func(i int64) string {
		list := tensor.Of[int64](values)
		return func(i int64) string { return strconv.FormatInt(list[i], 10) }
	},
}

// featureHashes return the hashes of a column's features, by type: an int64 is its own hash.
var featureHashes = map[tensor.DType]func(values *tensor.Tensor) func(i int64) uint64{
	tensor.String: fingerprinted,
	tensor.Int64: func(values *tensor.Tensor) func(i int64) uint64 {
		list := tensor.Of[int64](values)
		return func(i int64) uint64 { return uint64(list[i]) }
	},
}

func fingerprinted(values *tensor.Tensor) func(i int64) uint64 {
	list := values.Strings()
	return func(i int64) uint64 { return farm.Fingerprint64([]byte(list[i])) }
}

// byFeature returns hash functions for the columns, without buckets.
func (c *crosses) byFeature() []func(i int64) uint64 {
	features := make([]func(i int64) uint64, len(c.columns))
	for i, column := range c.columns {
		features[i] = featureHashes[column.values.DType()](column.values)
	}
	return features
}

// bytesHash hashes bytes: by FarmHash's fingerprint or, with a key, by SipHash.
type bytesHash func(b []byte) uint64

func strongHash(key []int64) bytesHash {
	return func(b []byte) uint64 { return siphash.Hash(uint64(key[0]), uint64(key[1]), b) }
}

// hashedBytes returns hashes of a column's features as bytes. As in TensorFlow, an int64 is hashed as its lower four bytes.
func hashedBytes(values *tensor.Tensor, hash bytesHash) func(i int64) uint64 {
	if values.DType() == tensor.String {
		list := values.Strings()
		return func(i int64) uint64 { return hash([]byte(list[i])) }
	}
	list := tensor.Of[int64](values)
	return func(i int64) uint64 {
		v := uint32(list[i])
		return hash([]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
	}
}

// joinFingerprints combines two hashes like TensorFlow's FingerprintCat64.
func joinFingerprints(a, b uint64) uint64 {
	const factor = 0xc6a4a7935bd1e995
	mixed := func(v uint64) uint64 { return v ^ v>>47 }
	sum := (a ^ factor ^ mixed(b*factor)*factor) * factor
	return mixed(mixed(sum) * factor)
}
