package checkpoint

import (
	"errors"
	"io"
	"slices"

	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	bundlepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/files"
)

// chunk is the number of bytes of a file read at once: small enough to be still in the cache for the checksum.
const chunk = 1 << 20

func checkVersion(v *versionspb.VersionDef, consumer int32) error {
	if v.GetMinConsumer() > consumer {
		return status.InvalidArgumentf("Checkpoint min consumer version %d above current version %d for TensorFlow %s.  Please upgrade TensorFlow.", v.MinConsumer, consumer, "2.21.0")
	}
	if v.GetProducer() < 0 {
		return status.InvalidArgumentf("Checkpoint producer version %d below min producer 0 supported by TensorFlow 2.21.0.  Please regenerate your checkpoint.", v.Producer)
	}
	if slices.Contains(v.GetBadConsumers(), consumer) {
		return status.InvalidArgumentf("Checkpoint disallows consumer version %d.  Please upgrade TensorFlow: this version is likely buggy.", consumer)
	}
	return nil
}

func (r *Reader) file(shard int32) (Source, error) {
	if f, ok := r.files[shard]; ok {
		return f, nil
	}
	if shard < 0 || shard >= r.shards {
		return nil, status.Errorf(status.DataLoss, "The checkpoint %s has %d data files, no number %d", r.prefix, r.shards, shard)
	}
	name := dataName(r.prefix, shard, r.shards)
	f, err := r.fs.Open(name)
	if err != nil {
		return nil, files.Error(name, err)
	}
	r.files[shard] = f
	return f, nil
}

// checkSize compares the size of an entry with its shape and the file, before memory is allocated for it.
func (r *Reader) checkSize(name string, e *bundlepb.BundleEntryProto) error {
	shape, _ := tensor.ShapeFromProto(e.Shape)
	n, err := shape.NumElements()
	if err != nil {
		return err
	}
	dtype := tensor.FromProto(e.Dtype)
	size := int64(dtype.Size())
	switch {
	case !dtype.Valid() || dtype.IsRef() || dtype == tensor.Resource:
		return status.Unimplementedf("Restoring tensors of type %v is not supported: %s", dtype, name)
	case size == 0 && e.Size < n: // an element takes at least a byte
		return status.Errorf(status.DataLoss, "Invalid size in bundle entry: key %s; stored size %d; expected size is at least %d", name, e.Size, n)
	case size > 0 && (e.Size < 0 || n > e.Size || n*size != e.Size):
		return status.Errorf(status.DataLoss, "Invalid size in bundle entry: key %s; stored size %d; expected size %d", name, e.Size, uint64(n)*uint64(size))
	}
	f, err := r.file(e.ShardId)
	if err != nil {
		return err
	}
	if e.Offset < 0 || e.Offset > f.Size() || e.Size > f.Size()-e.Offset {
		return status.Errorf(status.DataLoss, "The %d bytes at %d of %s lie beyond the end of %s", e.Size, e.Offset, name, dataName(r.prefix, e.ShardId, r.shards))
	}
	return nil
}

// readAll reads the tensor of an entry.
func (r *Reader) readAll(pool *tensor.Pool, name string, e *bundlepb.BundleEntryProto) (*tensor.Tensor, error) {
	if err := r.checkSize(name, e); err != nil {
		return nil, err
	}
	shape, _ := tensor.ShapeFromProto(e.Shape)
	t, err := tensor.New(pool, tensor.FromProto(e.Dtype), shape)
	if err != nil {
		return nil, err
	}
	if err := r.fill(t, e); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// fillers read elements without a fixed size and return the checksum of what they read; fillBytes reads the others.
var fillers = map[tensor.DType]func(r *Reader, in *section, t *tensor.Tensor) (crc uint32, err error){
	tensor.String: func(r *Reader, in *section, t *tensor.Tensor) (uint32, error) {
		return readStrings(newReader(in), t.Strings(), r.big)
	},
	tensor.Variant: func(r *Reader, in *section, t *tensor.Tensor) (uint32, error) {
		return readVariants(newReader(in), t.Variants(), r.variants)
	},
}

func fillBytes(_ *Reader, in *section, t *tensor.Tensor) (crc uint32, err error) {
	for data := t.Data(); len(data) > 0 && err == nil; {
		n := min(len(data), chunk)
		_, err = io.ReadFull(in, data[:n])
		data = data[n:]
	}
	return in.crc, err
}

func (r *Reader) fill(t *tensor.Tensor, e *bundlepb.BundleEntryProto) error {
	if e.Size == 0 {
		return nil
	}
	in := &section{src: r.files[e.ShardId], off: e.Offset, end: e.Offset + e.Size}
	if t.DType() == tensor.Variant && r.big {
		return status.Unimplementedf("TensorBundle at %s is of a different endianness than this machine's hardware, and the bundle contains a variant (arbitrary C++ type) tensor. "+
			"Byte-swapping of variant tensors is not currently implemented.", r.prefix)
	}
	read, ok := fillers[t.DType()]
	if !ok {
		read = fillBytes
	}
	crc, err := read(r, in, t)
	if err != nil {
		return r.readError(e, err)
	}
	if err := r.check(e, crc); err != nil {
		return err
	}
	if r.big {
		swap(t.Data(), t.DType())
	}
	return nil
}

// readPart copies to t, which holds slice to of a tensor, its intersection with the saved slice p. It streams the saved slice and verifies
// it the first time.
func (r *Reader) readPart(pool *tensor.Pool, name string, p part, t *tensor.Tensor, to view) error {
	if err := r.checkSize(name, p.entry); err != nil {
		return err
	}
	b, ok := overlap(p.slice, to.slice, to.whole)
	if !ok {
		return nil
	}
	size := int64(t.DType().Size())
	if size == 0 {
		src, err := r.readAll(pool, name, p.entry)
		if err != nil {
			return err
		}
		defer src.Release()
		return b.copyTensor(t, to, src, p.view)
	}
	in := newReader(&section{src: r.files[p.entry.ShardId], off: p.entry.Offset, end: p.entry.Offset + p.entry.Size})
	at := int64(0)
	known := r.checked[placeOf(p.entry)]
	skip := func(to int64) error {
		n := to - at
		at = to
		if known {
			in.jump(n)
			return nil
		}
		return in.discard(n)
	}
	err := b.runs(to, p.view, func(d, s, n int64) error {
		if err := skip(s * size); err != nil {
			return err
		}
		at += n * size
		_, err := io.ReadFull(in, t.Data()[d*size:(d+n)*size])
		return err
	})
	if err == nil && !known {
		err = skip(p.entry.Size)
	}
	if err != nil {
		return r.readError(p.entry, err)
	}
	if !known {
		if err := r.check(p.entry, in.from.crc); err != nil {
			return err
		}
	}
	if !r.big {
		return nil
	}
	return b.runs(to, p.view, func(d, _, n int64) error {
		swap(t.Data()[d*size:(d+n)*size], t.DType())
		return nil
	})
}

func placeOf(e *bundlepb.BundleEntryProto) place { return place{e.ShardId, e.Offset, e.Size} }

func (r *Reader) check(e *bundlepb.BundleEntryProto, crc uint32) error {
	if unmask(e.Crc32C) != crc {
		return status.Errorf(status.DataLoss, "TensorBundle at %s shard %d (%d bytes): Checksum does not match: stored %08d vs. calculated on the restored bytes %d",
			r.prefix, e.ShardId, e.Size, unmask(e.Crc32C), crc)
	}
	r.checked[placeOf(e)] = true
	return nil
}

func (r *Reader) readError(e *bundlepb.BundleEntryProto, err error) error {
	name := dataName(r.prefix, e.ShardId, r.shards)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return status.Errorf(status.DataLoss, "%s ended before %d", name, e.Offset+e.Size)
	}
	return files.Error(name, err)
}
