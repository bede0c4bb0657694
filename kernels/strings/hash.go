package strings

import (
	"unsafe"

	"github.com/dchest/siphash"
	"github.com/dgryski/go-farm"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// newHashBucket makes the constructor of an op that puts strings into buckets by a hash, which is part
// of what the op promises: models are trained on the bucket's numbers.
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
		ctx.Device.Parallel(len(src), element.CostlyGrain, func(lo, hi int) {
			for i, s := range src[lo:hi] {
				dst[lo+i] = int64(hash(s) % uint64(buckets))
			}
		})
		return nil
	}), nil
}

// fingerprint64 is the hash of StringToHashBucketFast, FarmHash's stable one.
func fingerprint64(s string) uint64 { return farm.Fingerprint64(bytesOf(s)) }

// bytesOf views a string as bytes, which must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// newStrongHashBucket makes the kernel that hashes with a key, by SipHash, so that nobody who does
// not know the key can fill a bucket.
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
