package iterator

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// Ops returns the ops of this package.
func Ops() []kernels.Def {
	return []kernels.Def{
		{Op: "Iterator", New: newIterator},
		{Op: "IteratorV2", New: newIterator},
		{Op: "AnonymousIterator", New: newAnonymousIterator},
		{Op: "AnonymousIteratorV2", New: newAnonymousIterator},
		{Op: "AnonymousIteratorV3", New: newAnonymousIterator},
		{Op: "OneShotIterator", New: newOneShotIterator},
		{Op: "MakeIterator", New: dataset.WaitingWithPlace(makeIterator)},
		{Op: "DeleteIterator", New: kernels.Always(dataset.DeleteResource(kindIterator))},
		{Op: "IteratorGetNext", New: newGetNext},
		{Op: "IteratorGetNextSync", New: newGetNext},
		{Op: "IteratorGetNextAsOptional", New: newGetNextAsOptional},
		{Op: "IteratorToStringHandle", New: kernels.Always(toString(iteratorToken))},
		{Op: "IteratorFromStringHandle", New: fromString(kindIterator)},
		{Op: "IteratorFromStringHandleV2", New: fromString(kindIterator)},
		{Op: "IteratorGetDevice", New: kernels.Always(iteratorDevice)},
		{Op: "ExperimentalIteratorGetDevice", New: kernels.Always(iteratorDevice)},
		{Op: "IteratorGetModelProto", New: kernels.Always(modelOf)},
		{Op: "SerializeIterator", New: newSerialize},
		{Op: "DeserializeIterator", New: newDeserialize},
		{Op: "MultiDeviceIterator", New: newDealer},
		{Op: "AnonymousMultiDeviceIterator", New: newDealer},
		{Op: "AnonymousMultiDeviceIteratorV3", New: newDealer},
		{Op: "DeleteMultiDeviceIterator", New: kernels.Always(dataset.DeleteResource(kindMultiDevice))},
		{Op: "MultiDeviceIteratorInit", New: dataset.WaitingWithPlace(multiDeviceInit)},
		{Op: "MultiDeviceIteratorGetNextFromShard", New: newMultiDeviceNext},
		{Op: "MultiDeviceIteratorToStringHandle", New: kernels.Always(toString(dealerToken))},
		{Op: "MultiDeviceIteratorFromStringHandle", New: fromString(kindMultiDevice)},
		{Op: "ReduceDataset", New: newReduce},
		{Op: "DatasetToSingleElement", New: newSingleElement},
		{Op: "GetElementAtIndex", New: newElementAt},
		{Op: "DatasetCardinality", New: newCardinality},
		{Op: "ExperimentalDatasetCardinality", New: newCardinality},
		{Op: "InitializeTableFromDataset", New: dataset.WaitingWithPlace(initializeTable)},
		{Op: "WrapDatasetVariant", New: kernels.Always(sameDataset)},
		{Op: "UnwrapDatasetVariant", New: kernels.Always(sameDataset)},
		{Op: "DatasetToGraph", New: newToGraph},
		{Op: "DatasetToGraphV2", New: newToGraph},
		{Op: "DatasetFromGraph", New: dataset.WaitingWithPlace(fromGraph)},
		{Op: "ComputeBatchSize", New: dataset.WithPlace(batchSize)},
		{Op: "DummySeedGenerator", New: kernels.Always(dummyResource)},
		{Op: "DummyMemoryCache", New: kernels.Always(dummyResource)},
		{Op: "DummyIterationCounter", New: kernels.Always(dummyResource)},
	}
}
