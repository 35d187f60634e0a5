//! A document's columns as a Parquet file, for the data frames and databases that read it: typed,
//! nulls as nulls, lists as lists.

use farline_core::report::{ColumnValues, Columns};
use farline_core::units::{Error, ErrorCode, Fault};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// The file: one group of rows, not compressed, `about` as its key-value metadata with `farline.`
/// before each name.
pub(super) fn encoded(table: &Columns) -> std::result::Result<Vec<u8>, Error> {
    encode(table).map_err(|error| {
        Error::new(Fault::Bug, ErrorCode::ProfileDocument, format!("as Parquet: {error}"))
    })
}

fn encode(table: &Columns) -> Result<Vec<u8>> {
    let fields =
        table.columns.iter().map(|(name, values)| field(name, values)).collect::<Result<_>>()?;
    let schema = Type::group_type_builder("farline").with_fields(fields).build()?;
    let about = table
        .about
        .iter()
        .map(|(name, value)| KeyValue::new(format!("farline.{name}"), value.clone()));
    let properties =
        WriterProperties::builder().set_key_value_metadata(Some(about.collect())).build();
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut rows = file.next_row_group()?;
    for (_, values) in &table.columns {
        let Some(mut column) = rows.next_column()? else { break };
        match values {
            ColumnValues::Text(all) => {
                put::<ByteArrayType, _>(&mut column, all, |text| {
                    ByteArray::from(text.as_bytes().to_vec())
                })?;
            }
            ColumnValues::Whole(all) => {
                put::<Int64Type, _>(&mut column, all, |number| number.cast_signed())?
            }
            ColumnValues::Real(all) => put::<DoubleType, _>(&mut column, all, |number| *number)?,
            ColumnValues::Flag(all) => put::<BoolType, _>(&mut column, all, |flag| *flag)?,
            ColumnValues::Wholes(all) => put_lists(&mut column, all)?,
        }
        column.close()?;
    }
    rows.close()?;
    file.into_inner()
}

/// A column as the schema has it (Apache Parquet, LogicalTypes.md): what is whole is unsigned, a
/// list has three levels.
fn field(name: &str, values: &ColumnValues) -> Result<TypePtr> {
    let whole = || Some(LogicalType::integer(64, false));
    let (physical, logical) = match values {
        ColumnValues::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnValues::Whole(_) => (Physical::INT64, whole()),
        ColumnValues::Real(_) => (Physical::DOUBLE, None),
        ColumnValues::Flag(_) => (Physical::BOOLEAN, None),
        ColumnValues::Wholes(_) => {
            let element =
                Type::primitive_type_builder("element", Physical::INT64).with_logical_type(whole());
            let element = element.with_repetition(Repetition::REQUIRED).build()?;
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![Arc::new(element)]);
            let group = Type::group_type_builder(name).with_repetition(Repetition::REQUIRED);
            let group = group
                .with_logical_type(Some(LogicalType::List))
                .with_fields(vec![Arc::new(list.build()?)]);
            return group.build().map(Arc::new);
        }
    };
    let plain = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    plain.with_logical_type(logical).build().map(Arc::new)
}

/// Writes `all`, whose absent values are nulls: a definition level of 0.
fn put<T: DataType, V>(
    column: &mut SerializedColumnWriter<'_>,
    all: &[Option<V>],
    value: fn(&V) -> T::T,
) -> Result<()> {
    let there: Vec<T::T> = all.iter().flatten().map(value).collect();
    let levels: Vec<i16> = all.iter().map(|one| one.is_some().into()).collect();
    column.typed::<T>().write_batch(&there, Some(&levels), None).map(drop)
}

/// Writes a list for each row: its first number begins a row, with a repetition level of 0, and an
/// empty one is a definition level of 0.
fn put_lists(column: &mut SerializedColumnWriter<'_>, all: &[Vec<u64>]) -> Result<()> {
    let numbers: Vec<i64> = all.iter().flatten().map(|number| number.cast_signed()).collect();
    let (mut defined, mut repeated) = (Vec::new(), Vec::new());
    for list in all {
        defined.extend(std::iter::repeat_n(i16::from(!list.is_empty()), list.len().max(1)));
        repeated.extend((0..list.len().max(1)).map(|place| i16::from(place > 0)));
    }
    column.typed::<Int64Type>().write_batch(&numbers, Some(&defined), Some(&repeated)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use std::io::Write;

    #[test]
    fn parquet_reads_back_with_types_nulls_and_lists() {
        let table = Columns {
            about: vec![("schema", "farline/profile/1".to_owned())],
            columns: vec![
                (
                    "path",
                    ColumnValues::Text(vec![
                        Some("usn-8600".to_owned()),
                        None,
                        Some("rückweg, \"b\"".to_owned()),
                    ]),
                ),
                ("seed", ColumnValues::Whole(vec![Some(u64::MAX), Some(0), None])),
                ("loss", ColumnValues::Real(vec![None, Some(1e-5), Some(0.0)])),
                ("valid", ColumnValues::Flag(vec![Some(true), Some(false), Some(true)])),
                (
                    "samples_bps",
                    ColumnValues::Wholes(vec![vec![1, 2, 3], vec![], vec![9_290_000_000]]),
                ),
            ],
        };
        let bytes = encoded(&table).expect("a table that can be written");
        let mut on_disk = tempfile::tempfile().expect("a file");
        on_disk.write_all(&bytes).expect("space");
        let file = SerializedFileReader::new(on_disk).expect("a Parquet file");
        let about = file.metadata().file_metadata().key_value_metadata().expect("what it is of");
        assert_eq!(
            (about[0].key.as_str(), about[0].value.as_deref()),
            ("farline.schema", Some("farline/profile/1"))
        );
        let rows: Vec<Vec<Field>> = file
            .get_row_iter(None)
            .expect("rows")
            .map(|row| {
                row.expect("a row").get_column_iter().map(|(_, field)| field.clone()).collect()
            })
            .collect();
        let list = |field: &Field| match field {
            Field::ListInternal(list) => list.elements().to_vec(),
            other => panic!("no list: {other:?}"),
        };
        assert_eq!(rows.len(), 3);
        assert_eq!(
            rows[0][..4],
            [
                Field::Str("usn-8600".to_owned()),
                Field::ULong(u64::MAX),
                Field::Null,
                Field::Bool(true)
            ]
        );
        assert_eq!(
            rows[1][..4],
            [Field::Null, Field::ULong(0), Field::Double(1e-5), Field::Bool(false)]
        );
        assert_eq!(rows[2][0], Field::Str("rückweg, \"b\"".to_owned()));
        assert_eq!(list(&rows[0][4]), [1, 2, 3].map(Field::ULong));
        assert!(list(&rows[1][4]).is_empty());
        assert_eq!(list(&rows[2][4]), [Field::ULong(9_290_000_000)]);
        assert_eq!(file.num_row_groups(), 1);
    }

    /// What stands in each row of a file, as its columns would have it.
    #[cfg(feature = "line")]
    fn rows_of(table: &Columns) -> Vec<Vec<Field>> {
        let text = |text: &Option<String>| text.clone().map_or(Field::Null, Field::Str);
        let row = |at: usize| {
            let fields = table.columns.iter().map(|(name, values)| match values {
                ColumnValues::Text(all) => text(&all[at]),
                ColumnValues::Whole(all) => all[at].map_or(Field::Null, Field::ULong),
                ColumnValues::Real(all) => all[at].map_or(Field::Null, Field::Double),
                ColumnValues::Flag(all) => all[at].map_or(Field::Null, Field::Bool),
                ColumnValues::Wholes(_) => panic!("{name}: a line test has no lists"),
            });
            fields.collect()
        };
        (0..table.columns[0].1.rows()).map(row).collect()
    }

    #[cfg(feature = "line")]
    #[test]
    fn a_line_test_and_a_comparison_read_back_from_parquet() {
        use farline_core::line::{
            DelaySample, FrameMix, LineComparison, LineSettings, LineTest, SecondRow, SentSecond,
        };
        use farline_core::report::ReportDocument;
        use farline_core::units::{Rate, Time};
        let settings = LineSettings {
            target: "there".to_owned(),
            rate: Rate::from_bps(1_000_000),
            load_percent: 100.0,
            frames: FrameMix::cjpat(),
            ethernet: None,
            burst: 1,
            criterion: None,
            confidence: 0.95,
            loss_burst: 1.0,
            most_seconds: 10,
            most_frames: None,
        };
        let mut test = LineTest::new(settings, true);
        for second in 0..4 {
            let (frames, framed_bits) = (100, 1_200_000);
            test.note_sent(SentSecond { second, frames, framed_bits, ..SentSecond::default() });
            let received = 100 - second;
            test.note_row(SecondRow { second, received, ..SecondRow::default() });
            // In the last second no packet came back: its round trip is null.
            for packet in 0..if second < 3 { 20 } else { 0 } {
                let at = |nanos: u64| {
                    Time::from_nanos(second * 1_000_000_000 + packet * 50_000_000 + nanos)
                };
                let (sent, received) = (at(0), at(1_000_000 + 1_000 * packet));
                let (returned, came) = (received, at(2_000_000));
                test.note_delay(second, DelaySample { sent, received, returned, came });
            }
        }
        test.settle_sent();
        let document = test.document("0.1.0", "today");
        let named = [("a".to_owned(), document.clone()), ("b".to_owned(), document.clone())];
        let comparison = LineComparison::of(&named, false).expect("two paths");
        for (table, rows) in [(document.columns(), 4), (comparison.columns(), 2)] {
            let mut on_disk = tempfile::tempfile().expect("a file");
            on_disk.write_all(&encoded(&table).expect("a table")).expect("space");
            let file = SerializedFileReader::new(on_disk).expect("a Parquet file");
            let schema = file.metadata().file_metadata().schema_descr();
            let names: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
            assert_eq!(names, table.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>());
            let read: Vec<Vec<Field>> = file
                .get_row_iter(None)
                .expect("rows")
                .map(|row| {
                    row.expect("a row").get_column_iter().map(|(_, field)| field.clone()).collect()
                })
                .collect();
            assert_eq!((read.len(), &read), (rows, &rows_of(&table)));
        }
        let table = document.columns();
        let lost = table.columns.iter().find(|(name, _)| *name == "lost").expect("a column");
        assert_eq!(lost.1, ColumnValues::Whole((0..4).map(Some).collect()));
        let rtt = table.columns.iter().find(|(name, _)| *name == "rtt_ns").expect("a column");
        assert!(
            matches!(&rtt.1, ColumnValues::Real(all) if all[0].is_some() && all[3].is_none()),
            "{rtt:?}"
        );
    }
}
