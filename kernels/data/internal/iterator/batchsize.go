package iterator

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// batchSize outputs the number of rows of a dataset's elements, as far as its batches determine it; -1 if unknown.
func batchSize(ctx *kernels.Context, p dataset.Place) error {
	d, err := dataset.FromTensor(p, ctx.Input(0))
	if err != nil {
		return err
	}
	defer d.Release()
	ctx.SetOutput(0, tensor.Scalar(tensor.Int64, batchSizeOf(d, map[*dataset.Dataset]int64{})))
	return nil
}

// keepsBatches are the ops whose elements have as many rows as those of their input.
var keepsBatches = []string{
	"AssertCardinalityDataset", "CacheDataset", "FilterDataset", "FinalizeDataset", "Identity", "ModelDataset", "OptimizeDataset",
	"OptionsDataset", "ParseExampleDataset", "PrefetchDataset", "RepeatDataset", "ShardDataset", "ShuffleAndRepeatDataset", "ShuffleDataset",
	"SkipDataset", "TakeDataset",
}

func batchSizeOf(d *dataset.Dataset, known map[*dataset.Dataset]int64) int64 {
	n, ok := known[d]
	if !ok {
		n = batchSizeBy(d, known)
		known[d] = n
	}
	return n
}

func batchSizeBy(d *dataset.Dataset, known map[*dataset.Dataset]int64) int64 {
	is := func(op string) bool { return dataset.MatchesAnyVersion(op, d.Op) }
	number := func(i int) int64 {
		if i < 0 || i >= len(d.Origin.Inputs) || d.Origin.Inputs[i].DType() != tensor.Int64 || d.Origin.Inputs[i].Len() != 1 {
			return -1
		}
		return tensor.Of[int64](d.Origin.Inputs[i])[0]
	}
	switch {
	case is("BatchDataset") || is("PaddedBatchDataset"):
		return number(1)
	case is("MapAndBatchDataset") || is("ExperimentalMapAndBatchDataset"):
		return number(len(d.Origin.Inputs) - 3)
	case is("ConcatenateDataset") || is("ZipDataset"):
		size := int64(-1)
		for i, in := range d.Inputs {
			n := batchSizeOf(in, known)
			if i > 0 && n != size {
				return -1
			}
			size = n
		}
		return size
	case slices.ContainsFunc(keepsBatches, is):
		if in := d.Previous(); in != nil {
			return batchSizeOf(in, known)
		}
	}
	return -1
}
