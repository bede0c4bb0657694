package source

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// Datasets returns the ops that create datasets of this package.
func Datasets() []kernels.Def {
	return []kernels.Def{
		{Op: "RangeDataset", New: dataset.New(newRange)},
		{Op: "TensorDataset", New: dataset.New(newTensors)},
		{Op: "TensorSliceDataset", New: dataset.New(newSlices)},
		{Op: "SparseTensorSliceDataset", New: dataset.NewWithSpec(newSparseSlices)},
		{Op: "ListDataset", New: dataset.New(newList)},
		{Op: "WindowOp", New: dataset.New(newList)},
		{Op: "GeneratorDataset", New: dataset.New(newGenerator)},
		{Op: "RandomDataset", New: dataset.New(newRandom)},
		{Op: "ExperimentalRandomDataset", New: dataset.New(newRandom)},
		{Op: "RandomDatasetV2", New: dataset.New(newRandomV2)},
		{Op: "TextLineDataset", New: dataset.NewWithSpec(newTextLines)},
		{Op: "TFRecordDataset", New: dataset.NewWithSpec(newTFRecords)},
		{Op: "TFRecordDatasetV2", New: dataset.NewWithSpec(newTFRecords)},
		{Op: "CSVDataset", New: dataset.New(newCSV)},
		{Op: "CSVDatasetV2", New: dataset.New(newCSV)},
		{Op: "ExperimentalCSVDataset", New: dataset.New(newCSV)},
		{Op: "FixedLengthRecordDataset", New: dataset.NewWithSpec(newFixedLength)},
		{Op: "FixedLengthRecordDatasetV2", New: dataset.NewWithSpec(newFixedLength)},
		{Op: "MatchingFilesDataset", New: dataset.NewWithSpec(newMatching)},
		{Op: "ExperimentalMatchingFilesDataset", New: dataset.NewWithSpec(newMatching)},
	}
}

// Ops returns the other ops.
func Ops() []kernels.Def {
	return []kernels.Def{
		{Op: "AnonymousSeedGenerator", New: newSeedGenerator},
		{Op: "AnonymousRandomSeedGenerator", New: newSeedGenerator},
		{Op: "DeleteSeedGenerator", New: kernels.Always(dataset.DeleteResource(kindSeeds))},
		{Op: "DeleteRandomSeedGenerator", New: kernels.Always(dataset.DeleteResource(kindSeeds))},
	}
}
