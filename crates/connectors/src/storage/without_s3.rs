//! Stands for S3 in a program that was built without it: there is no bucket, and nothing is read or written in one.

use std::io::{self, Write};

use super::FoundObject;
use crate::ConnectorError;
use crate::options::Options;

#[derive(Debug, Clone)]
pub(crate) enum Bucket {}

#[derive(Debug)]
pub(crate) enum ObjectReader {}

pub(crate) enum Upload {}

impl Bucket {
    pub(crate) fn new(_: &str, _: &Options) -> Result<Bucket, ConnectorError> {
        let problem = "has the scheme 's3', which this program was built without: build it with the feature 's3'";
        Err(ConnectorError::option("path", problem))
    }

    pub(crate) fn name(&self) -> &str {
        match *self {}
    }

    pub(crate) fn find(&self, _: &str) -> io::Result<Option<FoundObject>> {
        match *self {}
    }

    pub(crate) fn list(&self, _: &str) -> io::Result<Vec<FoundObject>> {
        match *self {}
    }

    pub(crate) fn open(&self, _: &str) -> io::Result<ObjectReader> {
        match *self {}
    }

    pub(crate) fn read(&self, _: &str) -> io::Result<Vec<u8>> {
        match *self {}
    }

    pub(crate) fn create(&self, _: &str, _: &[u8]) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) fn remove(&self, _: &str) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn put_empty(&self, _: &str) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn upload(&self, _: &str) -> io::Result<Upload> {
        match *self {}
    }

    pub(crate) fn complete(&self, _: &str, _: &str) -> io::Result<()> {
        match *self {}
    }
}

impl ObjectReader {
    pub(crate) fn size(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn read_next(&self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn failure(&self) -> Option<String> {
        match *self {}
    }
}

impl Upload {
    pub(crate) fn end(&mut self) -> io::Result<String> {
        match *self {}
    }
}

impl Write for Upload {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}
