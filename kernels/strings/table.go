package strings

import (
	lookup "github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/parse"
	"golang.org/x/text/cases"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addString(table)
	return table
}

// addString adds the ops on strings.
func addString(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "AsString", New: newAsString},
		{Op: "DecodeBase64", New: kernels.Always(decodeBase64)},
		{Op: "EncodeBase64", New: newEncodeBase64},
		{Op: "ReduceJoin", New: newReduceJoin},
		{Op: "RegexFullMatch", New: kernels.Always(regexFullMatch)},
		{Op: "RegexReplace", New: newRegexReplace},
		{Op: "ShardedFilename", New: kernels.Always(shardedFilename)},
		{Op: "StaticRegexFullMatch", New: newStaticRegexFullMatch},
		{Op: "StaticRegexReplace", New: newStaticRegexReplace},
		{Op: "StringFormat", New: newStringFormat},
		{Op: "StringJoin", New: newStringJoin},
		{Op: "StringLength", New: newStringLength},
		{Op: "StringLower", New: newStringCase(asciiLower, cases.Lower)},
		{Op: "StringNGrams", New: newStringNGrams},
		{Op: "StringSplit", New: newStringSplit},
		{Op: "StringSplitV2", New: newStringSplitV2},
		{Op: "StringStrip", New: kernels.Always(eachString(parse.TrimSpace))},
		{Op: "StringToHashBucket", New: newHashBucket(lookup.Hash64)},
		{Op: "StringToHashBucketFast", New: newHashBucket(fingerprint64)},
		{Op: "Fingerprint", New: newFingerprint},
		{Op: "StringToHashBucketStrong", New: newStrongHashBucket},
		{Op: "StringToNumber", New: newStringToNumber},
		{Op: "StringUpper", New: newStringCase(asciiUpper, cases.Upper)},
		{Op: "Substr", New: newSubstr},
		{Op: "UnicodeDecode", New: newUnicodeDecode},
		{Op: "UnicodeDecodeWithOffsets", New: newUnicodeDecode},
		{Op: "UnicodeEncode", New: newUnicodeEncode},
		{Op: "UnicodeScript", New: kernels.Always(unicodeScript)},
		{Op: "UnicodeTranscode", New: newUnicodeTranscode},
		{Op: "UnsortedSegmentJoin", New: newUnsortedSegmentJoin},
	}...)
}
