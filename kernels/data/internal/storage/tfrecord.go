package storage

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// toTFRecord writes the elements, which are strings, to a file.
func toTFRecord(ctx *kernels.Context, p dataset.Place) error {
	in := &dataset.Inputs{Context: ctx}
	name, compression := in.Str(1, "filename"), source.Compression(in, 2)
	if in.Err != nil {
		return in.Err
	}
	return dataset.Iterate(ctx, p, func(c *dataset.Call, d *dataset.Dataset, it dataset.Iterator) (err error) {
		if len(d.Types) != 1 || d.Types[0] != tensor.String {
			return status.InvalidArgumentf("DatasetToTFRecord needs a dataset of one string component, got %s", dataset.TypeNames(d.Types))
		}
		f, err := ctx.Files().Overwrite(name)
		if err != nil {
			return files.Error(name, err)
		}
		w := tfrecord.NewWriter(f, compression)
		defer func() {
			for _, end := range []func() error{w.Close, f.Close} {
				if e := end(); err == nil {
					err = files.Error(name, e)
				}
			}
		}()
		for {
			e, err := it.Next(c)
			if dataset.AtEnd(err) {
				return nil
			}
			if err != nil {
				return err
			}
			if len(e) != 1 || e[0].DType() != tensor.String || e[0].Rank() != 0 {
				e.Release()
				return status.InvalidArgumentf("DatasetToTFRecord needs elements that are scalar strings")
			}
			err = w.Write([]byte(e[0].Strings()[0]))
			e.Release()
			if err != nil {
				return files.Error(name, err)
			}
		}
	})
}
