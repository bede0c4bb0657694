package strings

import (
	"encoding/binary"
	"unsafe"

	"github.com/dchest/siphash"
	"github.com/dgryski/go-farm"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// newHashBucket returns the constructor of an op that assigns strings to buckets by a hash. The hash is part of the op's contract: models
// are trained on the bucket numbers.
func newHashBucket(hash func(string) uint64) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) { return hashBuckets(c, hash) }
}

func hashBuckets(c *kernels.Construction, hash func(string) uint64) (any, error) {
	buckets, err := c.Attrs().Int("num_buckets")
	if err != nil {
		return nil, err
	}
	if buckets < 1 {
		return nil, status.InvalidArgumentf("Value for attr 'num_buckets' of %d must be at least minimum 1", buckets)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		in := ctx.Input(0)
		out, err := ctx.Allocate(0, tensor.Int64, in.Shape())
		if err != nil {
			return err
		}
		src, dst := in.Strings(), tensor.Of[int64](out)
		ctx.Parallel(len(src), element.CostlyGrain, func(lo, hi int) {
			for i, s := range src[lo:hi] {
				dst[lo+i] = int64(hash(s) % uint64(buckets))
			}
		})
		return nil
	}), nil
}

// fingerprint64 is the hash of StringToHashBucketFast: FarmHash's stable fingerprint.
func fingerprint64(s string) uint64 { return farm.Fingerprint64(bytesOf(s)) }

// bytesOf returns a string's bytes, which must not be modified.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// newStrongHashBucket returns the kernel that hashes with a key, by SipHash, so that nobody without the key can deliberately fill a bucket.
func newStrongHashBucket(c *kernels.Construction) (any, error) {
	key, err := c.Attrs().IntList("key")
	if err != nil {
		return nil, err
	}
	if len(key) != 2 {
		return nil, status.InvalidArgumentf("Key must have 2 elements")
	}
	return hashBuckets(c, func(s string) uint64 { return siphash.Hash(uint64(key[0]), uint64(key[1]), bytesOf(s)) })
}

// fingerprintSize is the length in bytes of a fingerprint.
const fingerprintSize = 8

// fingerprint is Fingerprint: it returns one for each row of the input. For several strings, it is the fingerprint of their fingerprints.
func fingerprint(ctx *kernels.Context) error {
	in, method := ctx.Input(0), ctx.Input(1)
	switch {
	case method.Rank() != 0:
		return status.InvalidArgumentf("`method` should be a scalar string: %v", method.Shape())
	case method.Strings()[0] != "farmhash64":
		return status.InvalidArgumentf("Unsupported fingerprint method: %s", method.Strings()[0])
	case in.Rank() < 1:
		return status.InvalidArgumentf("`data` should have at least one dimension: %v", in.Shape())
	}
	rows := in.Dim(0)
	out, err := ctx.Allocate(0, tensor.Uint8, tensor.Shape{int64(rows), fingerprintSize})
	if err != nil || rows == 0 {
		return err
	}
	dst, width := tensor.Of[uint8](out), in.Len()/rows
	for r := range rows {
		var row []byte
		switch {
		case in.DType() != tensor.String:
			size := in.DType().Size() * width
			row = in.Data()[r*size : (r+1)*size]
		case width == 1:
			row = bytesOf(in.Strings()[r])
		default:
			for _, s := range in.Strings()[r*width : (r+1)*width] {
				row = binary.LittleEndian.AppendUint64(row, fingerprint64(s))
			}
		}
		binary.LittleEndian.PutUint64(dst[r*fingerprintSize:], farm.Fingerprint64(row))
	}
	return nil
}

// newFingerprint rejects types whose elements are not plain bytes.
func newFingerprint(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("T")
	if err != nil {
		return nil, err
	}
	if dtype == tensor.Variant || dtype == tensor.Resource {
		return nil, status.InvalidArgumentf("Data type not supported: %v", dtype)
	}
	return kernels.Func(fingerprint), nil
}
