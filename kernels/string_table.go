package kernels

import (
	"strings"

	"github.com/troupe-run/troupe/containers/table"
	"golang.org/x/text/cases"
)

// The ops on strings.
func init() {
	Register(
		Def{Op: "AsString", New: newAsString},
		Def{Op: "RegexFullMatch", New: always(regexFullMatch)},
		Def{Op: "RegexReplace", New: newRegexReplace},
		Def{Op: "ShardedFilename", New: always(shardedFilename)},
		Def{Op: "StaticRegexFullMatch", New: newStaticRegexFullMatch},
		Def{Op: "StaticRegexReplace", New: newStaticRegexReplace},
		Def{Op: "StringFormat", New: newStringFormat},
		Def{Op: "StringJoin", New: newStringJoin},
		Def{Op: "StringLength", New: newStringLength},
		Def{Op: "StringLower", New: newStringCase(asciiLower, cases.Lower)},
		Def{Op: "StringNGrams", New: newStringNGrams},
		Def{Op: "StringSplit", New: newStringSplit},
		Def{Op: "StringSplitV2", New: newStringSplitV2},
		Def{Op: "StringStrip", New: always(eachString(strings.TrimSpace))},
		Def{Op: "StringToHashBucket", New: newHashBucket(table.Hash64)},
		Def{Op: "StringToHashBucketFast", New: newHashBucket(fingerprint64)},
		Def{Op: "StringToHashBucketStrong", New: newStrongHashBucket},
		Def{Op: "StringToNumber", New: newStringToNumber},
		Def{Op: "StringUpper", New: newStringCase(asciiUpper, cases.Upper)},
	)
}
